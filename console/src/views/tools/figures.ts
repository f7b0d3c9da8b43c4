// Sums by tool over what is loaded of a session.
import type { Result } from "../../session";
import type { ToolView, TurnView } from "../../types";

export const KEYS = ["name", "results", "tokens", "share", "largest", "used", "unused", "uses", "declared", "missed"] as const;
export type Key = (typeof KEYS)[number];
export type Tool = { name: string } & Record<Exclude<Key, "name">, number>;

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
