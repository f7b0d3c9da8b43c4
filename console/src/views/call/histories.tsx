// The prompt beside the full history, with omitted messages folded.
import { useMemo, useState } from "preact/hooks";
import { request } from "../../api";
import { number, plural } from "../../format";
import { ResultLink } from "../../parts/links";
import { MORE, More } from "../../parts/notes";
import { readableArguments } from "../../parts/reading";
import type { SessionData } from "../../session";
import type { CallView, ContentView, MessageLine } from "../../types";
import { Sent } from "./sent";
import { ROLES, ToolCall } from "./messages";

interface Props {
  view: CallView;
  data: SessionData;
  /** The number of messages that each list has requested. */
  window: number;
  onMore: (more: number) => void;
}

/** The number of characters of a message in one request. */
export const PART = 1 << 18;

/** The complete text of a message. */
export async function readWhole({ branch }: SessionData, position: number): Promise<string> {
  let text = "";
  for (let start = 0, length = 1; start < length; start += PART) {
    const part = await request<ContentView>("read_message", { ...branch, position, start, characters: PART });
    text += part.text;
    length = part.length;
  }
  return text;
}

export function Histories({ view, data, window, onMore }: Props) {
  const { messages, history_messages: before, explain } = view;
  const last = messages.filter((line) => line.position >= before - window);
  return (
    <section class="histories" aria-label="Histories">
      <Sent key={explain.turn} data={data} turn={explain.turn} />
      <div>
        <h2>
          Full history <small>{plural(before, "message")}</small>
        </h2>
        <div class="scroll history" tabIndex={0} role="region" aria-label="Full history">
          <More there={last.length} all={before} kind="earlier" onMore={() => onMore(MORE)} />
          <List data={data} lines={last} />
        </div>
      </div>
    </section>
  );
}

const isShown = (line: MessageLine): boolean => line.display !== "omitted" || line.calls.some((call) => call.in_prompt);

/** The messages in order. Successive omitted messages are one line. */
function List({ lines, data }: { lines: MessageLine[]; data: SessionData }) {
  const groups = useMemo(() => group(lines), [lines]);
  return (
    <>
      {groups.map((entry) =>
        entry.length === 1 && isShown(entry[0]) ? (
          <Message key={entry[0].position} line={entry[0]} data={data} />
        ) : (
          <Fold key={`fold${entry[0].position}`} lines={entry} data={data} />
        ),
      )}
    </>
  );
}

function group(lines: MessageLine[]): MessageLine[][] {
  const groups: MessageLine[][] = [];
  let open = false;
  for (const line of lines) {
    const out = !isShown(line);
    if (out && open) groups[groups.length - 1].push(line);
    else groups.push([line]);
    open = out;
  }
  return groups;
}

function Fold({ lines, data }: { lines: MessageLine[]; data: SessionData }) {
  const [open, setOpen] = useState(false);
  const tokens = lines.reduce((sum, line) => sum + line.tokens + line.calls.reduce((all, call) => all + call.tokens, 0), 0);
  return (
    <details class="fold" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {plural(lines.length, "message")} left out <small>{plural(tokens, "token")}</small>
      </summary>
      {open && lines.map((line) => <Message key={line.position} line={line} data={data} />)}
    </details>
  );
}

function Message({ line, data }: { line: MessageLine; data: SessionData }) {
  const [text, setText] = useState<string | null>(null);
  const { calls } = line;
  const out = line.display === "omitted" && !calls.some((call) => call.in_prompt);
  return (
    <article class={`message ${line.role} ${out ? "omitted" : line.display}`}>
      <header>
        <strong>{ROLES[line.role] ?? line.role}</strong>
        {line.role === "tool" ? (
          <ResultLink data={data} position={line.position} name={line.name} />
        ) : (
          <span class="muted">#{line.position}</span>
        )}
        <span class="spring" />
        {line.unbudgeted && <span class="tag">outside the budget</span>}
        {line.display !== "complete" && line.display !== "omitted" && <span class="tag warn">{line.display}</span>}
        {out && <span class="tag">omitted</span>}
        <small>
          turn {number(line.turn)} · {number(line.tokens + calls.reduce((sum, call) => sum + call.tokens, 0))} tokens
        </small>
      </header>
      {(text ?? line.text) !== "" && <pre>{text ?? line.text}{text === null && !line.text_complete && "…"}</pre>}
      {text === null && !line.text_complete && (
        <button class="link" onClick={() => void readWhole(data, line.position).then(setText)}>
          {line.display === "complete" || line.display === "omitted" ? "Show all of it" : "Show the original"}
        </button>
      )}
      {calls.map((call, index) => (
        <ToolCall key={index} name={call.name} gone={!call.in_prompt}>
          {readableArguments(call.text)}
          {!call.text_complete && "…"}
        </ToolCall>
      ))}
    </article>
  );
}
