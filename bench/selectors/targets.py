"""The figures the policies were built to reach on the Toolathlon runs, in %."""

from dataclasses import dataclass

NO_EXCERPTS = "oversized_share=0"
FROZEN_WIDE = "contextrender_frozen:frozen_share=0.4"
FROZEN_THRIFTY = "contextrender_frozen:thrifty=1"


@dataclass(frozen=True, slots=True)
class Target:
    """Result recall, value recall, turns with all values, and prompt cost at 0.1; None: not set."""

    policy: str
    budget: int
    result_recall: float
    value_recall: float | None = None
    turns_with_all_values: float | None = None
    prompt_cost_10: float | None = None


TARGETS = (
    Target("prune", 6000, 36.3, 85.7, 74.2, 60),
    Target(f"recency:{NO_EXCERPTS}", 6000, 41.6, 87.5, 77.4, 56),
    Target(f"relevance:{NO_EXCERPTS}", 6000, 51.5, 86.5, 76.9, 41),
    Target(f"recency_relevance:{NO_EXCERPTS}", 6000, 43.3, 87.7, 78.0, 56),
    Target(f"contextrender:{NO_EXCERPTS}", 6000, 53.3, 86.2, 77.8, 50),
    Target("contextrender", 6000, 53.3, 86.2, 77.8, 50),
    Target("reuse_density:newest_share=0", 6000, 69.6, 86.6, 79.2, 44),
    Target("reuse_density", 6000, 67.6),
    Target("contextrender_plus", 6000, 65.2, 91.7, 85.5, 71),
    Target("contextrender_frozen", 6000, 57.5, 89.4, 80.9, 31),
    Target(f"contextrender:{NO_EXCERPTS}", 12000, 69.8, 92.7, 87.1, 76),
    Target("contextrender", 12000, 69.8, 92.7, 87.1, 76),
    Target("contextrender_frozen", 12000, 70.3, 94.9, 90.0, 42),
    Target(FROZEN_WIDE, 24000, 81.0, 98.3, 96.1, 51),
)

POLICIES = (
    "prune",
    "recency",
    "relevance",
    "recency_relevance",
    "semantic_retrieval",
    "contextrender",
    "reuse_density",
    "contextrender_plus",
    "contextrender_frozen",
)
BUDGETS = (6000, 12000, 24000)
LOOP_BUDGETS = (*BUDGETS, 48000)
LOOPS = {"loop-paper": POLICIES[:6], "loop-ours": (*POLICIES[6:], FROZEN_THRIFTY)}
OTHERS = (
    *(f"{policy}:{NO_EXCERPTS}@6000" for policy in ("recency", "relevance", "recency_relevance")),
    *(f"contextrender:{NO_EXCERPTS}@{budget}" for budget in (6000, 12000)),
    "reuse_density:newest_share=0@6000",
    f"{FROZEN_WIDE}@24000",
    *(f"{FROZEN_THRIFTY}@{budget}" for budget in BUDGETS),
)

COMPARED = (
    *(("contextrender", f"contextrender_plus@{b}") for b in BUDGETS),
    *(("reuse_density", f"contextrender_plus@{b}") for b in BUDGETS),
    *(("contextrender", f"contextrender_frozen@{b}") for b in BUDGETS),
    *(("contextrender_plus", f"contextrender_frozen@{b}") for b in BUDGETS),
    *((FROZEN_THRIFTY, f"contextrender_frozen@{b}") for b in BUDGETS),
    ("contextrender_frozen@12000", "contextrender@6000"),
)
"""Pairs of policies; a first one without a budget has the second one's."""
