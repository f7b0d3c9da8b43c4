import { expect, test } from "vitest";
import { filtered } from "../../src/views/graph/model";
import { madeGraph } from "./made";

const graph = madeGraph([[1, 0], [2, 1], [3, 2], [3, 1]], [[0, 11, "A_1"], [0, 21, "A_1"], [1, 21, "B_1"], [2, 99, "C_1"]], [[99, 4]]);

test("a call that drew on a result stands as the result it brought", () => {
  expect(graph.links.map(({ source, target }) => `${source.id} ${target.id}`)).toEqual(["r0 r1", "r0 r2", "r1 r2", "r2 o99"]);
  expect(graph.nodes.map((node) => node.id)).toEqual(["r0", "r1", "r2", "r3", "o99"]);
  expect(graph.nodes.map((node) => node.uses)).toEqual([2, 1, 1, 0, 0]);
});

test("a text, and a call without a result, stand for themselves", () => {
  expect(graph.nodes.at(-1)).toMatchObject({ result: -1, turn: 4, name: "", label: "text of turn 4" });
  const waiting = madeGraph([[1, 0]], [[0, 50, "A_1"]], [[50, 2]]);
  expect(waiting.nodes.map((node) => node.id)).toEqual(["r0", "o50"]);
});

test("a tool's results come with what drew on them, unused ones when asked for", () => {
  const ids = (tool: string, unused: boolean) => filtered(graph, tool, unused).nodes.map((node) => node.id);
  expect(ids("", false)).toEqual(["r0", "r1", "r2", "o99"]);
  expect(ids("", true)).toEqual(["r0", "r1", "r2", "r3", "o99"]);
  expect(ids("open", false)).toEqual(["r1", "r2"]);
  expect(ids("open", true)).toEqual(["r1", "r2", "r3"]);
});
