import { expect, test } from "vitest";
import type { SessionView, ToolCost } from "../src/types";
import { adviceOn, orderBy, sumTools } from "../src/views/tools";

const tool = (name: string, fields: Partial<ToolCost>): ToolCost => ({
  name, results: 1, tokens: 100, reused: 0, declared: 0, unused_tokens: 0, largest: 100, largest_turn: 1, excess_tokens: 0, dollars: null, declared_dollars: null, excess_dollars: null, ...fields,
});
const read = tool("read", { tokens: 20_000, unused_tokens: 10_000, largest: 9000, dollars: 2, excess_tokens: 5000, excess_dollars: 0.5 });
const idle = tool("fly", { results: 0, tokens: 0, declared: 700, declared_dollars: 0.25 });

test("advice names large results and unused declarations with their costs", () => {
  expect(adviceOn([tool("grep", {}), read, idle])).toEqual([
    "read floods: 10K of its 20K tokens were never used, about $1.00; its largest result has 9K. Add to the agent’s instructions: “Ask read for at most 4,000 tokens at a time.” It would have saved 5K tokens that nothing used, about $0.5000.",
    "Never called: fly; their declarations are 700 tokens of every request, about $0.2500. Switch them off in the agent.",
  ]);
});

test("small results and missing prices give no advice", () => {
  expect(adviceOn([tool("grep", { unused_tokens: 100, declared: 9 })])).toEqual(["No tool floods, and every declared one was called."]);
  expect(adviceOn([tool("grep", { unused_tokens: 100 })])).toEqual(["No tool floods."]);
  expect(adviceOn([{ ...read, dollars: null }])[0]).toContain("never used; its largest");
});

test("tools of several sessions are added up", () => {
  const view = (session: string, ...tools: ToolCost[]) => ({ session: { session } as SessionView, tools });
  const [sum, other] = sumTools([view("one", tool("read", {})), view("two", read, idle)]);
  expect(sum).toMatchObject({ name: "read", results: 2, tokens: 20_100, dollars: 2, largest: 9000, at: "#/session/two/call/1" });
  expect(other).toMatchObject({ name: "fly", declared: 700 });
});

test("tools are sorted by any column", () => {
  const names = (key: keyof ToolCost, down: boolean) => orderBy([read, idle], key, down).map(({ name }) => name);
  expect(names("tokens", true)).toEqual(["read", "fly"]);
  expect(names("name", false)).toEqual(["fly", "read"]);
  expect(names("dollars", true)).toEqual(["read", "fly"]);
});
