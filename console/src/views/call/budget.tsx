// The budget as a bar: text, calls, each result, and the remaining tokens.
import { number, percent, plural } from "../../format";
import { groupBy } from "../../grouping";
import { numbersIn, type SessionData } from "../../session";
import { toolColour, isDark } from "../../theme";
import type { CallView } from "../../types";

interface Part {
  name: string;
  /** The label within the bar. */
  label?: string;
  tokens: number;
  kind: "text" | "calls" | "result" | "free" | "over";
  colour?: string;
}

export function BudgetBar({ view, data }: { view: CallView; data: SessionData }) {
  const dark = isDark();
  const colourOf = (name: string) => toolColour(Math.max(0, data.tools.indexOf(name)), dark);
  const { budget, tokens_after: after, tokens_unbudgeted: unbudgeted, text_tokens: retained, policy } = view.explain;
  const complete = numbersIn(view.explain.complete).map((number) => shownOf(data, number));
  const replaced = numbersIn(view.explain.substitutes);
  const completeTokens = view.explain.complete_tokens;
  const calls = view.explain.call_tokens;
  const otherTokens = Math.max(0, after - retained - calls - completeTokens);
  const parts: Part[] = [
    { name: "User and assistant text", label: "Text", tokens: retained, kind: "text" },
    { name: "Calls of the results shown", label: "Calls", tokens: calls, kind: "calls" },
    ...complete.map((row): Part => ({
      name: `Result #${row.position} of ${row.name || "a tool"}`,
      tokens: row.tokens,
      kind: "result",
      colour: colourOf(row.name),
    })),
  ];
  if (otherTokens > 0) parts.push({ name: `Excerpts of ${plural(replaced.length, "result")}, with their calls`, label: "Excerpts", tokens: otherTokens, kind: "over" });
  const free = budget - after;
  if (free > 0) parts.push({ name: "Free", label: "Free", tokens: free, kind: "free" });
  const total = Math.max(budget, after);
  const description = `${number(after)} of ${number(budget)} tokens used: text ${number(retained)}, calls ${number(calls)}, ${complete.length} complete results ${number(completeTokens)}`;
  return (
    <figure class="budget">
      <figcaption>
        <h2>Budget</h2>
        <span>
          {number(after)} of {number(budget)} tokens, {policy}
          {unbudgeted > 0 && (
            <span class="muted"> · {number(unbudgeted)} outside it (system prompt and current user message)</span>
          )}
        </span>
      </figcaption>
      <div class="panel stack" role="img" aria-label={description}>
        {parts.map(
          (part, index) =>
            part.tokens > 0 && (
              <span
                key={index}
                class={`part ${part.kind}`}
                style={{ width: `${(100 * part.tokens) / total}%`, ...(part.colour ? { backgroundColor: part.colour } : {}) }}
                title={`${part.name}: ${number(part.tokens)} tokens, ${percent(part.tokens / budget)}`}
              >
                {part.tokens / total > 0.09 ? part.label : ""}
              </span>
            ),
        )}
        {after > budget && <span class="limit" style={{ left: `${(100 * budget) / total}%` }} title="The budget" />}
      </div>
      <ul class="legend" aria-label="Results shown, by tool">
        {byTool(complete).map(([name, count, tokens]) => (
          <li key={name}>
            <i class="swatch" style={{ background: colourOf(name) }} /> {name || "a tool"} {number(count)}
            <small>{number(tokens)} tokens</small>
          </li>
        ))}
      </ul>
    </figure>
  );
}

interface Shown {
  position: number;
  name: string;
  tokens: number;
}

/** Return the result of a number, if it is loaded. */
function shownOf(data: SessionData, number: number): Shown {
  const loadedResult = data.results[number];
  return { position: loadedResult?.position ?? -1, name: data.tools[loadedResult?.tool] ?? "", tokens: loadedResult?.tokens ?? 0 };
}

/** Return the number of results and their tokens for each tool, the largest first. */
function byTool(results: Shown[]): [string, number, number][] {
  const tools = [...groupBy(results, ({ name }) => name)];
  return tools.map(([name, rows]): [string, number, number] => [name, rows.length, sumOf(rows)]).sort((a, b) => b[2] - a[2]);
}

const sumOf = (rows: Shown[]): number => rows.reduce((sum, { tokens }) => sum + tokens, 0);
