// Settings that were weighed, as lines to draw.
import type { AdvisedView } from "../types";

export interface Line {
  policy: string;
  points: { budget: number | string; inView: number; cost: number }[];
}

/** The options that say both, a line for each policy in the order of its budgets. */
export function linesOf(options: AdvisedView[]): Line[] {
  const lines = new Map<string, Line["points"]>();
  for (const { policy, budget, cost, hidden } of options) {
    if (cost === null || hidden === null) continue;
    lines.set(policy, [...(lines.get(policy) ?? []), { budget, inView: 1 - hidden, cost }]);
  }
  return [...lines].map(([policy, points]) => ({ policy, points: points.sort((a, b) => sizeOf(a.budget) - sizeOf(b.budget)) }));
}

/** A budget that finds itself comes last. */
function sizeOf(budget: number | string): number {
  return typeof budget === "number" ? budget : Number.POSITIVE_INFINITY;
}
