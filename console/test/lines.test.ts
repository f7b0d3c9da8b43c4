import { expect, test } from "vitest";
import { linesOf } from "../src/parts/curve";
import type { PolicyView } from "../src/types";

const option = (policy: string, budget: number, cost: number | null, steps: number, steps_with_misses: number) =>
  ({ policy, budget, cost, steps, steps_with_misses }) as PolicyView;

test("each policy has one line; options without a price have no point", () => {
  const lines = linesOf([option("a", 6000, 0.5, 4, 1), option("b", 3000, null, 4, 0), option("a", 3000, 0.3, 4, 2), option("c", 1, 1, 0, 0)]);
  expect(lines).toEqual([
    ["a", [{ policy: "a", budget: 3000, share: 0.5, cost: 0.3 }, { policy: "a", budget: 6000, share: 0.75, cost: 0.5 }]],
    ["c", [{ policy: "c", budget: 1, share: 1, cost: 1 }]],
  ]);
});
