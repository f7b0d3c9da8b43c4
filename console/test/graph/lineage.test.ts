import { expect, test } from "vitest";
import { lineage } from "../../src/views/graph/lineage";
import { madeGraph } from "./made";

// r0 -> r1 -> r2 -> r3, r0 -> r3, and r4 -> r3, which only r3 has to do with.
const graph = madeGraph(
  [[1, 0], [2, 0], [3, 0], [5, 0], [4, 1]],
  [[0, 11, "A_1"], [1, 21, "B_1"], [2, 31, "C_1"], [0, 31, "A_1"], [4, 31, "E_1"]],
);
const ids = (id: string, steps: number) => lineage(graph, id, steps).nodes.map((node) => node.id).sort();

test("what it drew on and what drew on it, step by step", () => {
  expect(ids("r2", 1)).toEqual(["r1", "r2", "r3"]);
  expect(ids("r2", 2)).toEqual(["r0", "r1", "r2", "r3"]);
  expect(ids("r0", 1)).toEqual(["r0", "r1", "r3"]);
});

test("what another drew on is not of this one's lineage", () => {
  expect(ids("r2", 100)).not.toContain("r4");
  expect(ids("r3", 1)).toEqual(["r0", "r2", "r3", "r4"]);
});

test("links are those of the way, and of an unknown node there are none", () => {
  const links = lineage(graph, "r1", 1).links.map(({ source, target }) => `${source.id} ${target.id}`);
  expect(links).toEqual(["r0 r1", "r1 r2"]);
  expect(lineage(graph, "r9", 5)).toEqual({ nodes: [], links: [] });
});
