"""The closing line: calls, tokens saved, what the run cost and would have cost, the console."""

from __future__ import annotations

from typing import Any

from contextrender_bridge.wrap.tally import Totals


def closing_line(totals: Totals, link: str, *, observing: bool) -> str:
    """One line for the person at the terminal."""
    if not totals.calls:
        return f"no model call came through; {link}"
    said = [
        f"{totals.calls} {'call' if totals.calls == 1 else 'calls'}",
        _tokens(totals, observing),
    ]
    said += _cost(totals, observing)
    if totals.failed_open:
        said.append(f"{totals.failed_open} went through unchanged because the service failed")
    return "; ".join([*said, link])


def as_json(totals: Totals, link: str) -> dict[str, Any]:
    """The same for programs. Dollars are null where no price is known."""
    known = totals.priced > 0
    return {
        "calls": totals.calls,
        "tokens_before": totals.before,
        "tokens_after": totals.after,
        "tokens_kept_away": totals.before - totals.after,
        "cost": round(totals.cost, 6) if known else None,
        "cost_of_whole_history": round(totals.whole_cost, 6) if known else None,
        "calls_without_usage": totals.unknown,
        "models_without_price": sorted(totals.unpriced),
        "priced_as": totals.priced_as,
        "fail_open": totals.failed_open,
        "console": link,
    }


def _tokens(totals: Totals, observing: bool) -> str:
    if observing:
        return f"{totals.before:,} prompt tokens, nothing changed"
    share = (totals.before - totals.after) / totals.before if totals.before else 0.0
    away = totals.before - totals.after
    return f"{away:,} of {totals.before:,} prompt tokens left out ({share:.0%})"


def _cost(totals: Totals, observing: bool) -> list[str]:
    said = []
    if totals.priced:
        said.append(_compared(totals, observing))
    if totals.unknown:
        said.append(f"{totals.unknown} without usage in the reply")
    said += [f"{model} at the price of {other}" for model, other in totals.priced_as.items()]
    if totals.unpriced:
        names = ", ".join(sorted(name or "an unnamed model" for name in totals.unpriced))
        said.append(f"no price known of {names}: `contextrender price` sets one")
    return said


def _compared(totals: Totals, observing: bool) -> str:
    cost, whole = totals.cost, totals.whole_cost
    if observing or abs(cost - whole) < 0.00005:
        return f"it cost {_dollars(cost)}"
    told = f"it cost {_dollars(cost)} instead of about {_dollars(whole)} with the whole history"
    more = f": {_dollars(cost - whole)} MORE, since the provider's cache was used less"
    return told + (more if cost > whole else "")


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"
