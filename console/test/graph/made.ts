// Graphs for tests: results by turn and tool, and their uses.
import type { GraphView } from "../../src/types";
import { type Graph, graphOf } from "../../src/views/graph/model";

export const TOOLS = ["find", "open", "edit", ...Array.from({ length: 9 }, (_, index) => `tool_${index}`)];

/** `made[i]` is the [turn, tool] of result i; its call is event 10 * i + 1. Uses are [result, event, value]. */
export function viewOf(made: [number, number][], uses: [number, number, string][], texts: [number, number][] = []): GraphView {
  const calls = made.map((_, index) => 10 * index + 1);
  const called = new Map(calls.map((event, index) => [event, made[index]]));
  const said = new Map(texts);
  const operations = [...new Set(uses.map(([, event]) => event))].sort((a, b) => a - b).map((event) => {
    const call = called.get(event);
    return { event, position: event, turn: call ? call[0] : said.get(event)!, name: call ? TOOLS[call[1]] : "" };
  });
  const results = {
    offset: 0,
    tools: TOOLS,
    names: made.map(([, tool]) => tool),
    positions: made.map((_, index) => index),
    turns: made.map(([turn]) => turn),
    tokens: made.map((_, index) => 50 + ((index * 131) % 4000)),
  };
  const edges = uses.map(([result, operation, value]) => ({ result, operation, count: 1, values: [value], source_messages: [-1] }));
  return { session: "s", branch: 0, turn_count: 1, results, calls, messages: [], operations, edges };
}

export const madeGraph = (...of: Parameters<typeof viewOf>): Graph => graphOf(viewOf(...of), (name) => TOOLS.indexOf(name));

/** 1,500 results in 1,200 turns by 12 tools, each using one of the twenty before it, or an old one. */
export function largeGraph(): Graph {
  const made: [number, number][] = [];
  for (let i = 0; i < 1500; i++) made.push([1 + Math.floor(i * 0.8), (i * 7) % 12]);
  const uses: [number, number, string][] = [];
  for (let i = 30; i < 1500; i++) uses.push([i % 5 ? i - 1 - (i % 19) : i % 25, 10 * i + 1, `V_${i}`]);
  const earlier = uses.filter(([result, event]) => made[result][0] < made[(event - 1) / 10][0]);
  return madeGraph(made, earlier);
}
