// What would have shown results that were out of view: looked for one by one, and told together.
import type { RemediesView } from "../types";

export interface Told {
  /** The smallest budget that would have shown those that some budget would have; null where none would. */
  budget: number | null;
  /** How many that is. */
  shown: number;
  /** Policies with the budget as it was, and how many each would have shown; the best first. */
  policies: [string, number][];
}

export function together(found: RemediesView[]): Told {
  const budgets = found.map(({ budget }) => budget).filter((budget) => budget !== null);
  const counts = new Map<string, number>();
  for (const policy of found.flatMap(({ policies }) => policies)) counts.set(policy, (counts.get(policy) ?? 0) + 1);
  return {
    budget: budgets.length ? Math.max(...budgets) : null,
    shown: budgets.length,
    policies: [...counts].sort((a, b) => b[1] - a[1]),
  };
}
