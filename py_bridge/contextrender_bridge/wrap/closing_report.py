"""The report that wrap prints when the agent ends: one line, or JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from contextrender_bridge.base.worth import pays_from, pricing_rule_of
from contextrender_bridge.client.replies import ToolCost
from contextrender_bridge.printing import count_of
from contextrender_bridge.wrap.run_totals import RunTotals


def closing_line(totals: RunTotals, link: str, *, observing: bool, failure: str = "") -> str:
    """Return the report in one line: calls, omitted tokens, costs, failures, and the link.

    `observing` means that the proxy changed no prompt. `failure` is the reason why no call was
    answered, or empty.
    """
    if not totals.calls:
        reason = f": {failure}" if failure else ""
        return f"no model call was answered{reason}; {link}"
    count = count_of(totals.calls, "call")
    if totals.unrecorded_calls:
        count += f" ({totals.unrecorded_calls} not recorded, such as for a title)"
    parts = [count, _tokens_part(totals, observing)]
    parts += _cost_parts(totals, observing)
    if totals.fail_open_count:
        parts.append(f"{totals.fail_open_count} sent unchanged because the service failed")
    return "; ".join([*parts, link])


@dataclass
class DeclaredTools:
    """The tools that a session's last request declared: how many, and their declarations' tokens.

    The last two fields count only the tools that the session never called.
    """

    tools: int = 0
    tokens: int = 0
    never_called: int = 0
    tokens_never_called: int = 0

    @classmethod
    def of_tools(cls, tools: Sequence[ToolCost]) -> "DeclaredTools":
        """Return the counts of the declared tools among these, without ContextRender's own.

        `declared` of a tool is the number of tokens of its declaration, 0 if it is not declared.
        """
        declared = [
            tool for tool in tools if tool["declared"] and "contextrender" not in tool["name"]
        ]
        never_called = [tool for tool in declared if not tool["results"]]
        return cls(
            tools=len(declared),
            tokens=sum(tool["declared"] for tool in declared),
            never_called=len(never_called),
            tokens_never_called=sum(tool["declared"] for tool in never_called),
        )


def declared_line(declared: DeclaredTools) -> str:
    """Return a sentence on the tokens of tool declarations, and on tools never called."""
    were = "was" if declared.never_called == 1 else "were"
    return (
        f"the declarations of its {declared.tools} tools take about {declared.tokens:,} tokens of "
        f"every request; {declared.never_called} {were} never called "
        f"({declared.tokens_never_called:,} tokens)"
    )


def closing_json(totals: RunTotals, declared: DeclaredTools, link: str) -> dict[str, Any]:
    """Return the report at the end of a run as plain values.

    Costs are in dollars, and None if no price is known. `pays_from` is the approximate number of
    tokens of history from which on rendering saves money.
    """
    has_price = totals.priced_calls > 0
    return {
        "calls": totals.calls,
        "unrecorded_calls": totals.unrecorded_calls,
        "tokens_before": totals.tokens_before,
        "tokens_after": totals.tokens_after,
        "longest_prompt": totals.longest_prompt,
        "pays_from": pays_from(pricing_rule_of([totals.model]), totals.model),
        "tokens_omitted": totals.tokens_before - totals.tokens_after,
        "cost": round(totals.cost, 6) if has_price else None,
        "full_history_cost": round(totals.full_history_cost, 6) if has_price else None,
        "calls_without_usage": totals.calls_without_usage,
        "models_without_price": sorted(totals.models_without_price),
        "price_source": totals.price_source,
        "fail_open": totals.fail_open_count,
        "declared": asdict(declared),
        "console": link,
    }


def _tokens_part(totals: RunTotals, observing: bool) -> str:
    """Return a phrase on the omitted tokens.

    If all prompts were shorter than wrap needs to pay off, the phrase reports that length, too.
    """
    if observing:
        return f"{totals.tokens_before:,} prompt tokens, nothing changed"
    omitted = totals.tokens_before - totals.tokens_after
    details = f"{omitted / totals.tokens_before:.0%}" if totals.tokens_before else "0%"
    if not omitted and not totals.fail_open_count:
        details += ", because your history stayed under the budget"
    text = f"{omitted:,} of {totals.tokens_before:,} prompt tokens omitted ({details})"
    pays_from_tokens = pays_from(pricing_rule_of([totals.model]), totals.model)
    if totals.longest_prompt < pays_from_tokens:
        text += f"; wrap pays off for prompts from about {pays_from_tokens:,} tokens on, and the "
        text += f"longest had {totals.longest_prompt:,}"
    return text


def _cost_parts(totals: RunTotals, observing: bool) -> list[str]:
    """Return the phrases that apply: the cost, calls without usage, and models without a price.

    A model without a price of its own may have been priced as another model.
    """
    parts = []
    if totals.priced_calls:
        parts.append(_compared_cost(totals, observing))
    if totals.calls_without_usage:
        parts.append(f"{totals.calls_without_usage} without usage in the reply")
    parts += [f"{model} at the price of {source}" for model, source in totals.price_source.items()]
    if totals.models_without_price:
        names = ", ".join(
            sorted(name or "an unnamed model" for name in totals.models_without_price)
        )
        parts.append(f"no price is known for {names}; set one with `contextrender price`")
    return parts


def _compared_cost(totals: RunTotals, observing: bool) -> str:
    """Return a phrase on the cost, compared with the estimated cost of the full history.

    The comparison is left out if nothing was changed, or if both costs are printed alike.
    """
    cost, full_cost = totals.cost, totals.full_history_cost
    is_equal_when_printed = abs(cost - full_cost) < 0.00005  # four decimals are printed
    if observing or is_equal_when_printed:
        return f"it cost {_dollars(cost)}"
    text = f"it cost {_dollars(cost)} instead of about {_dollars(full_cost)} with the full history"
    if cost > full_cost:
        text += f": {_dollars(cost - full_cost)} MORE, because the provider's cache was used less"
    return text


def _dollars(amount: float) -> str:
    """Return dollars as text. Amounts of less than one have four decimals."""
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"
