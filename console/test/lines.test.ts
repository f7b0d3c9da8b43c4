import { expect, test } from "vitest";
import { linesOf } from "../src/parts/curve";

const option = (policy: string, budget: number, cost: number | null, hidden: number | null) => ({
  policy, budget, cost, hidden, dollars: 1, full_dollars: 2,
});

test("a policy's points are one line, by what was in view; what says nothing has none", () => {
  const lines = linesOf([option("a", 6000, 0.5, 0.25), option("b", 3000, 0.4, null), option("a", 3000, 0.3, 0.5), option("c", 1, null, 0)]);
  expect(lines).toEqual([["a", [{ policy: "a", budget: 3000, inView: 0.5, cost: 0.3 }, { policy: "a", budget: 6000, inView: 0.75, cost: 0.5 }]]]);
});
