import { expect, test } from "vitest";
import { filtered, graphOf, lineage, usesOf, withoutCommon } from "../../src/views/graph/model";
import { madeGraph, viewOf } from "./made";

const graph = madeGraph([[1, 0], [2, 1], [3, 2], [3, 1]], [[0, 11, "A_1"], [0, 21, "A_1"], [1, 21, "B_1"], [2, 99, "C_1"]], [[99, 4]]);

test("a call that uses a result is shown as its own result", () => {
  expect(graph.links.map(({ source, target }) => `${source.id} ${target.id}`)).toEqual(["r0 r1", "r0 r2", "r1 r2", "r2 o99"]);
  expect(graph.nodes.map((node) => node.id)).toEqual(["r0", "r1", "r2", "r3", "o99"]);
  expect(graph.nodes.map((node) => node.uses)).toEqual([2, 1, 1, 0, 0]);
});

test("a text, and a call without a result, are separate nodes", () => {
  expect(graph.nodes.at(-1)).toMatchObject({ result: -1, turn: 4, name: "", label: "text of turn 4" });
  const waiting = madeGraph([[1, 0]], [[0, 50, "A_1"]], [[50, 2]]);
  expect(waiting.nodes.map((node) => node.id)).toEqual(["r0", "o50"]);
});

test("a tool's results include their uses", () => {
  const ids = (tool: string) => filtered(graph, tool).nodes.map((node) => node.id);
  expect(ids("")).toEqual(["r0", "r1", "r2", "o99"]);
  expect(ids("open")).toEqual(["r1", "r2"]);
});

test("a lineage has the results that a result uses and the ones that use it, transitively", () => {
  // r0 -> r1 -> r2 -> r3, r0 -> r3, and r4 -> r3, which only r3 has to do with.
  const made: [number, number][] = [[1, 0], [2, 0], [3, 0], [5, 0], [4, 1]];
  const graph = madeGraph(made, [[0, 11, "A_1"], [1, 21, "B_1"], [2, 31, "C_1"], [0, 31, "A_1"], [4, 31, "E_1"]]);
  const ids = (id: string) => lineage(graph, id).nodes.map((node) => node.id).sort();
  expect(ids("r2")).toEqual(["r0", "r1", "r2", "r3"]);
  expect(ids("r3")).toEqual(["r0", "r1", "r2", "r3", "r4"]);
  expect(lineage(graph, "r2").links.map(({ source, target }) => `${source.id} ${target.id}`)).toEqual(["r0 r1", "r1 r2", "r2 r3"]);
  expect(lineage(graph, "r9")).toEqual({ nodes: [], links: [] });
});

test("a value that the user said comes from the user's message", () => {
  const view = viewOf([[1, 0], [2, 1]], [[0, 11, "ORD_7"]], [[99, 3]]);
  const edges = [
    { operation: 11, result: 0, count: 14, values: ["ORD_7", "ORD_8"], source_messages: [-1, 0] },
    { operation: 99, result: 0, count: 1, values: ["ORD_8"], source_messages: [0] },
    { operation: 99, result: 1, count: 1, values: ["ORD_9"], source_messages: [0] },
  ];
  const operations = [...view.operations, { event: 99, position: 9, turn: 3, name: "" }];
  const graph = graphOf({ ...view, edges, operations, messages: [{ position: 0, turn: 1, role: "user" }] }, Number);
  expect(graph.links.map(({ source, target, count }) => `${source.id} ${target.id} ${count}`)).toEqual(["r0 r1 1", "m0 r1 13", "m0 o99 2"]);
  expect(graph.nodes.map(({ id, uses }) => `${id} ${uses}`)).toEqual(["r0 1", "m0 2", "r1 0", "o99 0"]);
  expect(usesOf(graph.links).size).toBe(3);
});

test("the operations of one turn are one use", () => {
  const graph = madeGraph([[1, 1], [2, 2], [2, 3]], [[0, 11, "ORD_7"], [0, 21, "ORD_7"]]);
  expect(graph.links).toHaveLength(2);
  expect(graph.nodes[0].uses).toBe(1);
  expect(usesOf(graph.links).size).toBe(1);
});

test("only uses of values that are in many turns are omitted", () => {
  const made = Array.from({ length: 9 }, (_, index): [number, number] => [index + 1, 0]);
  const uses = made.slice(1).map((_, index): [number, number, string] => [0, 10 * (index + 1) + 1, "status_open"]);
  const view = viewOf(made, [...uses, [1, 31, "ORD_7"], [1, 41, "ORD_7"]]);
  expect(withoutCommon(view).edges.map(({ values }) => values[0])).toEqual(["ORD_7", "ORD_7"]);
  const [first, ...others] = view.edges;
  const both = { ...view, edges: [{ ...first, count: 2, values: ["status_open", "ORD_8"] }, ...others] };
  expect(withoutCommon(both).edges).toHaveLength(3);
  expect(withoutCommon({ ...view, turn_count: 100 }).edges).toHaveLength(view.edges.length);
});
