// What each tool's results weigh, and what became of them: from the calls as far as they are loaded.
import { useMemo, useState } from "preact/hooks";
import { number, percent, plural, short } from "../format";
import { RESULTS } from "../parts/notes";
import { type Column, num, type Sorted, Table, text } from "../parts/table";
import type { Result, SessionData } from "../session";
import type { ToolView, TurnView } from "../types";

type Key = "name" | "results" | "tokens" | "share" | "largest" | "used" | "unused" | "uses" | "declared" | "missed";
type Tool = { name: string } & Record<Exclude<Key, "name">, number>;

const COLUMNS: Column<Tool>[] = [
  num("Results", (tool) => number(tool.results), { hint: RESULTS, by: "results" }),
  num("Tokens", (tool) => short(tool.tokens), { hint: "Of its results, complete", title: (tool) => plural(tool.tokens, "token"), by: "tokens" }),
  num("Share", (tool) => percent(tool.share), { hint: "Of the tokens of all results", by: "share" }),
  num("Largest", (tool) => short(tool.largest), { hint: "Its largest result, in tokens", by: "largest" }),
  num("Used", (tool) => number(tool.used), { hint: "Results that a later text or call used", by: "used" }),
  num("Never used", ({ unused, tokens }) => <>{short(unused)} <small>{percent(tokens ? unused / tokens : 0)}</small></>, {
    hint: "Tokens of results that nothing used so far",
    by: "unused",
  }),
  num("Uses", (tool) => number(tool.uses), { hint: "Turns that used its results, each result counted", by: "uses" }),
  num("Declaration", ({ declared }) => (declared > 0 ? number(declared) : "–"), {
    hint: "About the tokens of its declaration in the last request, and so of every one",
    by: "declared",
  }),
  num("Misses", ({ missed }) => (missed > 0 ? <span class="tag warn">{number(missed)}</span> : 0), {
    hint: "Times an answer needed a result of it that was out of view",
    by: "missed",
  }),
];

export function Tools({ data, declared }: { data: SessionData; declared: ToolView[] }) {
  const [sort, setSort] = useState<Sorted>({ key: "tokens", down: true });
  const tools = useMemo(() => toolsOf(data.tools, data.results, data.usedAt, data.turns, declared), [data.version, declared]);
  const rows = useMemo(() => orderBy(tools, sort.key as Key, sort.down), [tools, sort]);
  const unused = tools.reduce((sum, tool) => sum + tool.unused, 0);
  const all = tools.reduce((sum, tool) => sum + tool.tokens, 0);
  const idle = tools.filter((tool) => tool.results === 0);
  const weight = (of: Tool[]) => short(of.reduce((sum, tool) => sum + tool.declared, 0));
  const name = text<Tool>("Tool", (tool) => <a href={data.to("timeline", null, { tool: tool.name })}>{tool.name || "a tool"}</a>, { by: "name", rising: true });
  return (
    <div class="tools">
      <p class="verdict">
        {plural(tools.length - idle.length, "tool")} brought <strong>{short(all)}</strong> tokens; nothing drew on {percent(all ? unused / all : 0)} of them so far.
      </p>
      {tools.some((tool) => tool.declared > 0) && (
        <p class="verdict">
          Their declarations are about <strong>{weight(tools)}</strong> tokens of every request; {plural(idle.length, "tool")} of {weight(idle)} tokens{" "}
          {idle.length === 1 ? "was" : "were"} never called.
        </p>
      )}
      <Table label="Tools" columns={[name, ...COLUMNS]} rows={rows} keyOf={(tool) => tool.name} sort={sort} onSort={setSort} />
    </div>
  );
}

/** `usedAt` has, by result, the turns that drew on it; turns that are not loaded are holes. `told` has what declarations weigh. */
export function toolsOf(names: string[], results: Result[], usedAt: number[][], turns: TurnView[], told: ToolView[]): Tool[] {
  const weights = new Map(told.map((tool) => [tool.name, tool.declared]));
  const more = [...weights.keys()].filter((name) => !names.includes(name));
  const tools = [...names, ...more].map((name): Tool => {
    const declared = weights.get(name) ?? 0;
    return { name, results: 0, tokens: 0, share: 0, largest: 0, used: 0, unused: 0, uses: 0, declared, missed: 0 };
  });
  let all = 0;
  for (const { number, tool, tokens } of results) {
    const sums = tools[tool];
    if (!sums) continue;
    const uses = usedAt[number]?.length ?? 0;
    all += tokens;
    sums.results++;
    sums.tokens += tokens;
    sums.largest = Math.max(sums.largest, tokens);
    sums.uses += uses;
    if (uses > 0) sums.used++;
    else sums.unused += tokens;
  }
  for (const turn of turns) {
    for (const number of turn?.missed ?? []) {
      const sums = tools[results[number]?.tool];
      if (sums) sums.missed++;
    }
  }
  return tools.filter((tool) => tool.results > 0 || tool.declared > 0).map((tool) => ({ ...tool, share: all ? tool.tokens / all : 0 }));
}

export function orderBy(tools: Tool[], key: Key, down: boolean): Tool[] {
  const sign = down ? -1 : 1;
  return [...tools].sort((a, b) => sign * (key === "name" ? a.name.localeCompare(b.name) : a[key] - b[key]) || a.name.localeCompare(b.name));
}
