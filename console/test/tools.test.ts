import { expect, test } from "vitest";
import type { Result } from "../src/session";
import type { TurnView } from "../src/types";
import { orderBy, toolsOf } from "../src/views/tools";

const result = (number: number, tool: number, tokens: number): Result => ({ number, position: number, turn: number, tokens, tool });
const turn = (missed: number[]): TurnView => ({ missed }) as unknown as TurnView;
const tools = toolsOf(
  ["read", "grep", "never"],
  [result(0, 0, 300), result(1, 1, 100), result(2, 0, 100), { ...result(3, 0, 0), tool: -1 }],
  [[3, 5]],
  [turn([]), turn([0, 2]), turn([0])],
  [{ name: "read", results: 2, tokens: 400, reused: 1, declared: 90, unused_tokens: 0, largest: 0, largest_turn: 0, dollars: null, declared_dollars: null }],
);

test("results, uses and misses are summed by tool", () => {
  expect(tools.find((tool) => tool.name === "read")).toEqual({
    name: "read", results: 2, tokens: 400, share: 0.8, largest: 300, used: 1, unused: 100, uses: 2, declared: 90, missed: 3,
  });
});

test("a tool that brought nothing is left out, and holes are passed over", () => {
  expect(tools.map((tool) => tool.name)).toEqual(["read", "grep"]);
  expect(toolsOf(["read"], [result(0, 0, 1)], [], [undefined, turn([0])] as TurnView[], [])[0].missed).toBe(1);
});

test("a tool that was only declared is there with what its declaration weighs", () => {
  const told = [{ name: "fly", results: 0, tokens: 0, reused: 0, declared: 70, unused_tokens: 0, largest: 0, largest_turn: 0, dollars: null, declared_dollars: null }];
  expect(toolsOf(["read"], [result(0, 0, 1)], [], [], told).map((tool) => [tool.name, tool.results, tool.declared])).toEqual([
    ["read", 1, 0],
    ["fly", 0, 70],
  ]);
});

test("they are ordered by any column", () => {
  expect(orderBy(tools, "tokens", true).map((tool) => tool.name)).toEqual(["read", "grep"]);
  expect(orderBy(tools, "name", false).map((tool) => tool.name)).toEqual(["grep", "read"]);
});
