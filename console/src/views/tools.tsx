// What each tool's results and its declaration cost, and how much of it was used: a bill for each tool.
import { useMemo } from "preact/hooks";
import { linkedSession } from "../api";
import { dollars, number, percent, plural, short } from "../format";
import { Choice } from "../parts/controls";
import { Failure, Loading, RESULTS } from "../parts/notes";
import { useCompleteReport } from "../parts/request";
import { type Column, num, Table, text, useSort } from "../parts/table";
import { address, useOption } from "../route";
import type { SessionData, ViewProps } from "../session";
import type { ToolCost, ToolsView } from "../types";

/** `missed` is the number of misses of its results, as far as the calls are loaded. */
type Tool = ToolCost & { missed: number };

const SCOPES = { "": "This session", newest: "The newest 20 sessions" };

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

/** The tools of the session, or of the newest sessions together. */
export function Tools({ place, data }: ViewProps) {
  const [sort, setSort] = useSort(place);
  const [scope, setScope] = useOption<keyof typeof SCOPES>(place, "sessions", "");
  const { value, error, busy, again } = useCompleteReport<ToolsView>("tools", scope ? {} : data.branch, data.last + data.answers);
  const tools = useMemo(() => withMisses(value?.tools ?? [], data), [data.version, value]);
  const rows = useMemo(() => sort ? orderBy(tools, sort.key as keyof Tool, sort.down) : tools, [tools, place.options.sort]);
  const columns = [
    text<Tool>("Tool", (tool) => <a href={data.to("timeline", null, { tool: tool.name })}>{tool.name || "a tool"}</a>, { by: "name", rising: true }),
    num<Tool>("Largest", ({ largest, largest_session: session, largest_turn: turn }) => (largest ? <a href={scope ? address(session, "call", turn) : data.to("call", turn)}>{short(largest)}</a> : "–"), {
      hint: "Its largest result, in tokens, and the call that it came before",
      by: "largest",
    }),
    ...COLUMNS.filter(({ by }) => !scope || by !== "missed"),
  ];
  if (error !== null) return <Failure error={error} again={again} />;
  if (value === null) return <Loading what="Adding up…" />;
  return (
    <div class={busy ? "tools stale" : "tools"}>
      {value.advice.map((sentence) => (
        <p key={sentence} class="verdict">
          {sentence}
        </p>
      ))}
      {linkedSession() === null && (
        <p class="toolbar">
          <Choice label="Tools of" value={scope} options={Object.keys(SCOPES) as (keyof typeof SCOPES)[]} names={SCOPES} onChoose={setScope} />
        </p>
      )}
      <Table label="Tools" columns={columns} rows={rows} keyOf={(tool) => tool.name} sort={sort} onSort={setSort} />
    </div>
  );
}

function withMisses(tools: ToolCost[], { turns, results, tools: names }: SessionData): Tool[] {
  const missed = turns.flatMap((turn) => turn?.misses ?? []).map((number) => names[results[number]?.tool] ?? "");
  return tools.map((tool) => ({ ...tool, missed: missed.filter((name) => name === tool.name).length }));
}

export function orderBy<T extends { name: string }>(tools: T[], key: keyof T, down: boolean): T[] {
  const by = (a: T, b: T) => (key === "name" ? a.name.localeCompare(b.name) : Number(a[key]) - Number(b[key]));
  return [...tools].sort((a, b) => (down ? -1 : 1) * by(a, b) || a.name.localeCompare(b.name));
}
