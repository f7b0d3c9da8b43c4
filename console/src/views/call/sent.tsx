// The messages of a call as they were sent: to read, and to copy as JSON, as curl, or as a pytest fixture.
import { useState } from "preact/hooks";
import { plural } from "../../format";
import { Copy } from "../../parts/copy";
import { Failure, Loading, MORE, More } from "../../parts/notes";
import { readableArguments } from "../../parts/reading";
import { useReport } from "../../parts/request";
import type { SessionData } from "../../session";
import type { CallView } from "../../types";
import { ROLES, ToolCall } from "./messages";

/** A message of a chat request. */
interface ChatMessage {
  [field: string]: unknown;
  role: string;
  content?: unknown;
  tool_calls?: { function: { name: string; arguments: string } }[];
}

interface Props {
  data: SessionData;
  turn: number;
}

export function Sent({ data, turn }: Props) {
  const [window, setWindow] = useState(150);
  const fields = { ...data.branch, ...data.setting, turn, rows: 0, window: 0, prompt: true };
  const { value, error, again } = useReport<CallView>("get_call", data.waitsFor(turn) ? null : fields);
  const messages = value?.explain.turn === turn ? (value.prompt as ChatMessage[] | null) : null;
  const model = data.turns[turn - 1]?.model ?? "";
  const newest = messages?.slice(-window) ?? [];
  return (
    <div>
      <h2>
        {data.setting ? "What the model would have got" : "What the model got"} {messages && <small>{plural(messages.length, "message")}</small>}
      </h2>
      <div class="scroll history" tabIndex={0} role="region" aria-label="What the model got">
        {error !== null && <Failure error={error} again={again} />}
        {messages ? (
          <p class="toolbar" title="As a chat request has them. Another dialect has the same ones in its own form">
            Copy as
            <Copy text={JSON.stringify(messages, null, 2)} title="JSON" />
            <Copy text={curlOf(model, messages)} title="curl" />
            <Copy text={fixtureOf(messages)} title="pytest fixture" />
          </p>
        ) : (
          error === null && <Loading what="Reading the prompt…" />
        )}
        <More there={newest.length} all={messages?.length ?? 0} kind="earlier" onMore={() => setWindow(window + MORE)} />
        {newest.map(({ role, content, tool_calls: calls = [] }, place) => (
          <article key={place} class={`message ${role}`}>
            <strong>{ROLES[role] ?? role}</strong>
            {content ? <pre>{typeof content === "string" ? content : JSON.stringify(content, null, 2)}</pre> : null}
            {calls.map((call, index) => (
              <ToolCall key={index} name={call.function.name}>
                {readableArguments(call.function.arguments)}
              </ToolCall>
            ))}
          </article>
        ))}
      </div>
    </div>
  );
}

/** Return a shell command that sends the messages; a quote within them ends and begins the shell's own. */
export function curlOf(model: string, messages: object[]): string {
  const body = JSON.stringify({ model, messages }).replaceAll("'", "'\\''");
  return `curl "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer $OPENAI_API_KEY" -H "Content-Type: application/json" -d '${body}'`;
}

/** Return a pytest fixture with the messages; a JSON string is a string of Python as well. */
export const fixtureOf = (messages: object[]): string =>
  `import json\n\nimport pytest\n\n\n@pytest.fixture\ndef prompt() -> list[dict]:\n    return json.loads(${JSON.stringify(JSON.stringify(messages))})\n`;
