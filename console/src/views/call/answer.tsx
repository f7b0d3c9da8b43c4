// The model's answer: its text and calls, with used values marked and misses in red.
import { useState } from "preact/hooks";
import { dollars, number, plural, timesOf } from "../../format";
import { costOf, promptOf } from "../../parts/cost";
import { useReport } from "../../parts/request";
import { Marked } from "../../parts/marked";
import { Failure, Loading } from "../../parts/notes";
import { OldVersion, ResultLink, ResultLinks } from "../../parts/links";
import { readableArguments } from "../../parts/reading";
import type { SessionData } from "../../session";
import type { ContentView, MissesView, Price, TurnView } from "../../types";
import { PART, readWhole } from "./histories";
import { ToolCall } from "./messages";

/** `position` is the position of the answer. */
export function Answer({ data, turn, position, price }: { data: SessionData; turn: number; position: number; price: Price | null }) {
  const call = data.turns[turn - 1];
  const answer = useReport<ContentView>("read_message", { ...data.branch, position, characters: PART });
  const lacks = useReport<MissesView>("misses", call?.misses.length ? { ...data.branch, start: turn, limit: 1 } : null);
  const [fullText, setWhole] = useState<string | null>(null);
  const value = answer.value?.position === position ? answer.value : null;
  if (answer.error !== null) return <Failure error={answer.error} again={answer.again} />;
  if (!value) return <Loading what="Reading the answer…" />;
  const missed = lacks.value?.misses.filter((miss) => miss.turn === turn) ?? [];
  const missedValues = new Set(missed.flatMap((miss) => miss.values));
  const values = [...new Set([...value.results_used.flatMap((use) => use.values), ...missedValues])];
  const repeatedResults = missed.filter((miss) => miss.repeated).map((miss) => miss.result);
  const marked = (text: string) => <Marked text={text} values={values} kind={(usedValue) => (missedValues.has(usedValue) ? "lacking" : "")} />;
  return (
    <section class="card said" aria-label="The answer">
      <h2>
        The answer <small>message {number(position)}</small>
      </h2>
      <p>{call && lackOf(call)}</p>
      <p class="muted">{[call && billOf(call, price), call && timesOf(call), plural(value.tokens, "token") + " of text"].filter(Boolean).join(" · ")}</p>
      {value.text !== "" && <pre>{marked(fullText ?? value.text)}</pre>}
      {fullText === null && [...value.text].length < value.length && (
        <button class="link" onClick={() => void readWhole(data, position).then(setWhole)}>
          Show all {number(value.length)} characters
        </button>
      )}
      {value.calls.map((made, place) => (
        <ToolCall key={place} name={made.name}>
          {marked(readableArguments(made.arguments))}
        </ToolCall>
      ))}
      {repeatedResults.length > 0 && (
        <p class="bad">
          It repeated the calls of omitted results: <ResultLinks data={data} numbers={repeatedResults} />
        </p>
      )}
      {value.text === "" && value.calls.length === 0 && <p class="hint">It is empty.</p>}
      {value.results_used.length > 0 && (
        <ul class="drawn" aria-label="Results it used">
          {value.results_used.map((use) => (
            <li key={use.position} class={missed.some((miss) => miss.position === use.position) ? "bad" : ""}>
              <ResultLink data={data} position={use.position} name={use.name} />{" "}
              {use.edited_at !== null && <OldVersion editedAt={use.edited_at} />}{" "}
              {use.values.slice(0, 12).map((usedValue) => (
                <code key={usedValue} class={missedValues.has(usedValue) ? "lacking" : ""}>
                  {usedValue}{" "}
                </code>
              ))}
              {use.values.length > 12 && <small>{number(use.values.length - 12)} more</small>}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** Return whether an answer had every value it used, in one sentence. */
export function lackOf({ uses, misses }: Pick<TurnView, "uses" | "misses">): string {
  if (misses.length) return `It missed a value of ${plural(misses.length, "result")}.`;
  return uses.length ? `It had every value it used, of ${plural(uses.length, "earlier result")}.` : "It used no earlier result.";
}

/** Return the provider's usage of a call, and its cost. */
function billOf({ model, usage }: TurnView, price: Price | null): string {
  if (!usage) return model;
  const { cache_read: read, output } = usage;
  const cached = read ? `, ${number(read)} of them from the cache` : "";
  const cost = price ? `: ${dollars(costOf(usage, price))}` : "; the model has no price";
  return `${model ? `${model}: ` : ""}${number(promptOf(usage))} prompt tokens${cached}, ${number(output)} of output${cost}`;
}
