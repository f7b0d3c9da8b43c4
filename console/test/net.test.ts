import { expect, test } from "vitest";
import type { PolicyView } from "../src/types";
import { netOf, sorted } from "../src/views/misses/net";

const view = (seen: number, prompt: number, cost: number): PolicyView => ({ seen, prompt, cost }) as unknown as PolicyView;
const own = view(75, 1000, 0.5);

test("a remedy is told beside how the session was", () => {
  expect(netOf({ policy: "prune", budget: null, shown: 20 }, own, view(29, 800, 0.4))).toMatchObject({ uses: -46, tokens: -200, shown: 20 });
});

test("what loses uses is not recommended, however many misses it shows", () => {
  const prune = netOf({ policy: "prune", budget: null, shown: 20 }, own, view(29, 800, 0.4));
  const larger = netOf({ policy: "contextrender", budget: 12_000, shown: 15 }, own, view(90, 2000, 0.8));
  const other = netOf({ policy: "reuse_density", budget: null, shown: 3 }, own, view(80, 1000, 0.5));
  expect(sorted([prune, other, larger])).toEqual({ wins: [larger, other], loses: [prune] });
});
