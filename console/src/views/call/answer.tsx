// What the model answered: its text and calls in full, what they drew on marked, what they lacked in red.
import { useState } from "preact/hooks";
import { ask } from "../../api";
import { number, plural } from "../../format";
import { useAsk } from "../../parts/load";
import { Marked } from "../../parts/marked";
import { Failure, Loading } from "../../parts/notes";
import { ResultLink } from "../../parts/places";
import type { SessionData } from "../../session";
import type { ContentView, MissesView, TurnView } from "../../types";

interface Props {
  data: SessionData;
  turn: number;
  /** The answer's position among the messages. */
  position: number;
  session: string;
  branch: number | null;
}

const PART = 1 << 18;

export function Answer({ data, turn, position, session, branch }: Props) {
  const base = { session, branch };
  const call = data.turns[turn - 1];
  const answer = useAsk<ContentView>("read_message", { ...base, position, characters: PART });
  const lacks = useAsk<MissesView>("misses", call?.missed.length ? { ...base, start: turn, limit: 1 } : null);
  const [rest, setRest] = useState("");
  const value = answer.value?.position === position ? answer.value : null;
  if (answer.error !== null) return <Failure error={answer.error} again={answer.again} />;
  if (!value) return <Loading what="Reading the answer…" />;
  const missed = lacks.value?.misses.filter((miss) => miss.turn === turn) ?? [];
  const lacking = new Set(missed.flatMap((miss) => miss.values));
  const values = [...new Set([...value.drawn.flatMap((drawn) => drawn.values), ...lacking])];
  const marked = (text: string) => <Marked text={text} values={values} kind={(found) => (lacking.has(found) ? "lacking" : "")} />;
  const all = async () => {
    let text = value.text;
    while (text.length < value.length) {
      text += (await ask<ContentView>("read_message", { ...base, position, start: text.length, characters: PART })).text;
    }
    setRest(text.slice(value.text.length));
  };
  return (
    <section class="said" aria-label="The answer">
      <h2>
        The answer <small>message {number(position)}</small>
      </h2>
      <p class="muted">{[call && billOf(call), plural(value.tokens, "token") + " of text"].filter(Boolean).join(" · ")}</p>
      {value.text !== "" && <pre>{marked(value.text + rest)}</pre>}
      {value.text.length + rest.length < value.length && (
        <button class="link" onClick={() => void all()}>
          Show all {number(value.length)} characters
        </button>
      )}
      {value.calls.map((made, place) => (
        <p key={place} class="toolcall">
          <span class="arrow" aria-hidden="true">
            →
          </span>
          <code>
            <b>{made.name}</b> {marked(made.arguments)}
          </code>
        </p>
      ))}
      {value.text === "" && value.calls.length === 0 && <p class="hint">It is empty.</p>}
      {value.drawn.length > 0 && (
        <ul class="drawn" aria-label="What it drew on">
          {value.drawn.map((drawn) => (
            <li key={drawn.position} class={missed.some((miss) => miss.position === drawn.position) ? "bad" : ""}>
              <ResultLink session={session} branch={branch} position={drawn.position} name={drawn.name} />{" "}
              {drawn.values.slice(0, 12).map((found) => (
                <code key={found} class={lacking.has(found) ? "lacking" : ""}>
                  {found}{" "}
                </code>
              ))}
              {drawn.values.length > 12 && <small>{number(drawn.values.length - 12)} more</small>}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** What the provider said of a call. */
function billOf({ model, billed }: TurnView): string {
  if (!billed) return model;
  const [fresh, read, written, hour, output] = billed;
  const prompt = fresh + read + written + hour;
  const cached = read ? `, ${number(read)} of them from the cache` : "";
  return `${model ? `${model}: ` : ""}${number(prompt)} prompt tokens${cached}, ${number(output)} of output`;
}
