// Settings that were weighed, as lines to draw.
import type { AdvisedView } from "../types";

export interface Point {
  budget: number | string;
  inView: number;
  cost: number;
}

/** The options that say both, a line for each policy from the least in view on. */
export function linesOf(options: AdvisedView[]): [policy: string, points: Point[]][] {
  const lines = new Map<string, Point[]>();
  for (const { policy, budget, cost, hidden } of options) {
    if (cost === null || hidden === null) continue;
    lines.set(policy, [...(lines.get(policy) ?? []), { budget, inView: 1 - hidden, cost }]);
  }
  return [...lines].map(([policy, points]) => [policy, points.sort((a, b) => a.inView - b.inView)]);
}
