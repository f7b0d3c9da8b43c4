import { expect, test } from "vitest";
import type { PolicyView, RemediesView } from "../src/types";
import { netOf, sorted, together } from "../src/views/misses/net";

const view = (seen: number, prompt: number, cost: number): PolicyView => ({ seen, prompt, cost }) as unknown as PolicyView;
const own = view(75, 1000, 0.5);

test("what loses uses is not recommended, however many misses it shows", () => {
  const prune = netOf({ policy: "prune", budget: null, shown: 20 }, own, view(29, 800, 0.4));
  const larger = netOf({ policy: "contextrender", budget: 12_000, shown: 15 }, own, view(90, 2000, 0.8));
  const other = netOf({ policy: "reuse_density", budget: null, shown: 3 }, own, view(80, 1000, 0.5));
  expect(sorted([prune, other, larger])).toEqual({ wins: [larger, other], loses: [prune] });
});

const found = (budget: number | null, ...policies: string[]) => ({ budget, policies }) as RemediesView;

test("the smallest budget for all is the largest that one needed, and policies are counted", () => {
  expect(together([found(12_000, "prune"), found(null), found(24_000, "prune", "reuse"), found(8000, "prune")], "own")).toEqual([
    { policy: "own", budget: 24_000, shown: 3 },
    { policy: "prune", budget: null, shown: 3 },
    { policy: "reuse", budget: null, shown: 1 },
  ]);
  expect(together([found(null)], "own")).toEqual([]);
});
