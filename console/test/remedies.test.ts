import { expect, test } from "vitest";
import { together } from "../src/parts/remedies";
import type { RemediesView } from "../src/types";

const found = (budget: number | null, ...policies: string[]): RemediesView => ({
  session: "s", branch: 0, turn: 1, position: 1, tried: [], budget, policies, complete: true,
});

test("the smallest budget for all is the largest that one needed, and policies are counted", () => {
  const told = together([found(12_000, "prune"), found(null), found(24_000, "prune", "reuse"), found(8000, "reuse", "prune")]);
  expect(told).toEqual({ budget: 24_000, shown: 3, policies: [["prune", 3], ["reuse", 2]] });
});

test("where no budget would have shown one, none is named", () => {
  expect(together([found(null)])).toEqual({ budget: null, shown: 0, policies: [] });
});
