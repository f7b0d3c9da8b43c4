"""The noted calls of an exported branch: what each was shown, and its provider's usage."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from contextrender_bridge.base.errors import InvalidRequest

from engine.call.facts import NO_BILL, SENT, Caller, CallFact
from engine.text.transcript import Json

KNOWN: Final = frozenset(
    {
        *("budget", "policy", "parameters", "live", "window", "keep_tools", "keep"),
        *("at", "results", "own_budget", "faulted", "back"),
        *("tokens", "shown", "replaced", "sent", "model", "client", "embedded", "billed"),
    }
)
SIZES: Final = 5
LATEST: Final = 2**40
"""Of any count, seconds since 1970 among them."""


def read_calls(
    data: Sequence[Any], where: str, fork: int, results: int, messages: Sequence[Json]
) -> dict[int, CallFact]:
    """Facts by the position of the answer, of a branch with these messages of its own.

    They follow `fork` others, among which there are `results` results. Raises InvalidRequest for
    what no export says, and for calls that tell of results there were not.
    """
    known = list(accumulate((one["role"] == "tool" for one in messages), initial=results))
    found: dict[int, CallFact] = {}
    for call in data:
        at = call.get("position") if isinstance(call, Mapping) else None
        own = at - fork if isinstance(at, int) and not isinstance(at, bool) else -1
        if not 0 <= own <= len(messages) or not _may_answer(messages, own):
            raise InvalidRequest(f"{where}.calls must each have the position of an answer")
        fact = _fact({name: call[name] for name in call if name != "position"}, where)
        if _most(fact) > known[own]:
            raise InvalidRequest(f"{where}.calls tell of results that were not there yet")
        if found.setdefault(fork + own, fact) is not fact:
            raise InvalidRequest(f"{where}.calls must be of different answers")
    return found


def _may_answer(messages: Sequence[Json], place: int) -> bool:
    """Whether an answer is there, or is what may come next."""
    if place < len(messages):
        return bool(messages[place]["role"] == "assistant")
    return bool(messages[-1]["role"] != "assistant")


def _most(fact: CallFact) -> int:
    """How many results there must have been."""
    ends = [runs[-2] + runs[-1] for runs in (fact.shown, fact.replaced, fact.back) if runs]
    return max(fact.results, *ends) if ends else fact.results


def _fact(call: Mapping[str, Any], where: str) -> CallFact:
    sizes, billed = call.get("tokens"), call.get("billed", [])
    runs = [call.get(name, []) for name in ("shown", "replaced", "back")]
    own = [call.get("own_budget", 0)]
    known = (
        set(call) <= KNOWN
        and _are_counts([call.get("at"), call.get("results"), call.get("embedded", 0)])
        and all(_are_counts(each) and len(each) % 2 == 0 for each in runs)
        and _are_counts([*own, *(sizes if isinstance(sizes, list) else [None])])
        and isinstance(call.get("faulted", False), bool)
        and _are_counts(billed)
        and (len(sizes or ()), len(billed)) in ((SIZES, 0), (SIZES, len(NO_BILL)))
        and all(isinstance(call.get(name, ""), str) for name in ("sent", "model", "client"))
    )
    if not known:
        raise InvalidRequest(f"{where}.calls must be as export_session tells them")
    Caller.of(call.get("sent") or SENT[0], call.get("model", ""), call.get("client", ""))
    return CallFact.from_json(call)


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < LATEST for v in values)
