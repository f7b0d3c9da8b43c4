// What each tool's results and its declaration cost, and how much of it was used: a bill for each tool.
import { useMemo, useState } from "preact/hooks";
import { linkedSession, request } from "../api";
import { dollars, number, percent, plural, short } from "../format";
import { Choice } from "../parts/controls";
import { Failure, Loading, RESULTS } from "../parts/notes";
import { useTask } from "../parts/request";
import { type Column, num, type Sorted, Table, text } from "../parts/table";
import { address, useOption } from "../route";
import type { SessionData, ViewProps } from "../session";
import type { InspectView, SessionPage, ToolCost } from "../types";

/** `missed` is the number of misses of its results, as far as the calls are loaded; `at` is the address of its largest result's call. */
type Tool = ToolCost & { missed: number; at: string };

const SCOPES = { "": "This session", newest: "The newest 20 sessions" };

/** The minimum number of tokens of a result that is listed by name. */
const FLOOD = 4000;

const costOf = ({ dollars, declared_dollars }: ToolCost): number => (dollars ?? 0) + (declared_dollars ?? 0);
const price = (amount: number | null) => (amount === null ? "–" : dollars(amount));

const COLUMNS: Column<Tool>[] = [
  num("Results", (tool) => number(tool.results), { hint: RESULTS, by: "results" }),
  num("Tokens", (tool) => short(tool.tokens), { hint: "Of its results, complete", title: (tool) => plural(tool.tokens, "token"), by: "tokens" }),
  num("Never used", ({ unused_tokens: unused, tokens }) => <>{short(unused)} <small>{percent(tokens ? unused / tokens : 0)}</small></>, {
    hint: "Tokens of results that nothing used so far",
    by: "unused_tokens",
  }),
  num("Used", (tool) => number(tool.reused), { hint: "Results that a later text or call used", by: "reused" }),
  num("Misses", ({ missed }) => (missed > 0 ? <span class="tag warn">{number(missed)}</span> : 0), {
    hint: "Times an answer used a result of it that was not visible",
    by: "missed",
  }),
  num("Cost", (tool) => price(tool.dollars), {
    hint: "Of its results in the full history: written to the provider’s cache once, read at every later call",
    by: "dollars",
  }),
  num("Declaration", ({ declared }) => (declared > 0 ? number(declared) : "–"), {
    hint: "About the tokens of its declaration in the last request, and so of every one",
    by: "declared",
  }),
  num("Its cost", (tool) => price(tool.declared ? tool.declared_dollars : null), { hint: "Of its declaration in every call", by: "declared_dollars" }),
];

/** The tools of the session, or of the newest sessions together. `declared` has the session's tools. */
export function Tools({ place, data, declared }: ViewProps & { declared: ToolCost[] }) {
  const [sort, setSort] = useState<Sorted>({ key: "dollars", down: true });
  const [scope, setScope] = useOption<keyof typeof SCOPES>(place, "sessions", "");
  const sessions = useTask<Tool[] | null>(null, async (report, signal) => void (scope && report(await newestTools(signal))), [scope]);
  const own = useMemo(() => withMisses(declared, data), [data.version, declared]);
  const tools = scope ? (sessions.value ?? own) : own;
  const rows = useMemo(() => orderBy(tools, sort.key as keyof Tool, sort.down), [tools, sort]);
  const columns = [
    text<Tool>("Tool", (tool) => <a href={data.to("timeline", null, { tool: tool.name })}>{tool.name || "a tool"}</a>, { by: "name", rising: true }),
    num<Tool>("Largest", ({ largest, at }) => (largest ? <a href={at}>{short(largest)}</a> : "–"), {
      hint: "Its largest result, in tokens, and the call that it came before",
      by: "largest",
    }),
    ...COLUMNS.filter(({ by }) => !scope || by !== "missed"),
  ];
  if (scope && sessions.error !== null) return <Failure error={sessions.error} again={sessions.again} />;
  if (scope && sessions.value === null) return <Loading what="Adding up…" />;
  return (
    <div class="tools">
      {adviceOn(tools).map((sentence) => (
        <p key={sentence} class="verdict">
          {sentence}
        </p>
      ))}
      {linkedSession() === null && <Choice label="Tools of" value={scope} options={Object.keys(SCOPES) as (keyof typeof SCOPES)[]} names={SCOPES} onChoose={setScope} />}
      <Table label="Tools" columns={columns} rows={rows} keyOf={(tool) => tool.name} sort={sort} onSort={setSort} />
    </div>
  );
}

function withMisses(declared: ToolCost[], data: SessionData): Tool[] {
  const { turns, results, tools } = data;
  const missed = new Map<string, number>();
  for (const number of turns.flatMap((turn) => turn?.misses ?? [])) {
    const name = tools[results[number]?.tool] ?? "";
    missed.set(name, (missed.get(name) ?? 0) + 1);
  }
  return declared.map((tool) => ({ ...tool, missed: missed.get(tool.name) ?? 0, at: data.to("call", tool.largest_turn) }));
}

const SUMMED = ["results", "tokens", "reused", "declared", "unused_tokens", "excess_tokens"] as const;
const COSTS = ["dollars", "declared_dollars", "excess_dollars"] as const;

/** Return the tools of the newest sessions. */
async function newestTools(signal: AbortSignal): Promise<Tool[]> {
  const { sessions } = await request<SessionPage>("list_sessions", { limit: 20 }, signal);
  return sumTools(await Promise.all(sessions.map(({ session }) => request<InspectView>("inspect_session", { session }, signal))));
}

/** Return the sums for each tool over sessions. The largest result is that of all. */
export function sumTools(views: Pick<InspectView, "session" | "tools">[]): Tool[] {
  const sums = new Map<string, Tool>();
  for (const { session, tools } of views)
    for (const tool of tools) {
      const own = { ...tool, missed: 0, at: address(session.session, "call", tool.largest_turn) };
      const sum = sums.get(tool.name);
      if (!sum) sums.set(tool.name, own);
      else {
        for (const name of SUMMED) sum[name] += tool[name];
        for (const name of COSTS) if (tool[name] !== null) sum[name] = (sum[name] ?? 0) + tool[name];
        if (tool.largest > sum.largest) Object.assign(sum, { largest: tool.largest, at: own.at });
      }
    }
  return [...sums.values()];
}

/** Tools with very large results and tools that are never called, each with advice, as in `contextrender tools`. */
export function adviceOn(tools: ToolCost[]): string[] {
  const sentences: string[] = [];
  const about = (amount: number) => (amount > 0 ? `, about ${dollars(amount)}` : "");
  const [flood] = tools.filter(({ largest, unused_tokens }) => largest >= FLOOD && unused_tokens > 0).sort((a, b) => b.unused_tokens - a.unused_tokens);
  if (flood) {
    const { name, tokens, unused_tokens: unused, largest } = flood;
    const cost = about(((flood.dollars ?? 0) * unused) / tokens);
    const saved = flood.excess_tokens ? ` It would have saved ${short(flood.excess_tokens)} tokens that nothing used${about(flood.excess_dollars ?? 0)}.` : "";
    sentences.push(
      `${name || "A tool"} floods: ${short(unused)} of its ${short(tokens)} tokens were never used${cost}; its largest result has ${short(largest)}. ` +
        `Add to the agent’s instructions: “Ask ${name || "tools"} for at most ${number(FLOOD)} tokens at a time.”${saved}`,
    );
  }
  const idle = tools.filter((tool) => tool.declared > 0 && tool.results === 0);
  if (idle.length) {
    const [tokens, cost] = [idle.reduce((sum, tool) => sum + tool.declared, 0), idle.reduce((sum, tool) => sum + costOf(tool), 0)];
    const names = idle.slice(0, 3).map((tool) => tool.name).join(", ") + (idle.length > 3 ? ` and ${idle.length - 3} more` : "");
    sentences.push(`Never called: ${names}; their declarations are ${short(tokens)} tokens of every request${about(cost)}. Switch them off in the agent.`);
  }
  if (sentences.length) return sentences;
  return [tools.some((tool) => tool.declared > 0) ? "No tool floods, and every declared one was called." : "No tool floods."];
}

export function orderBy<T extends { name: string }>(tools: T[], key: keyof T, down: boolean): T[] {
  const by = (a: T, b: T) => (key === "name" ? a.name.localeCompare(b.name) : Number(a[key]) - Number(b[key]));
  return [...tools].sort((a, b) => (down ? -1 : 1) * by(a, b) || a.name.localeCompare(b.name));
}
