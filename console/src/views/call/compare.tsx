// Two prompts side by side: of two calls, or of one call under two settings.
import { useMemo } from "preact/hooks";
import { diffWordsWithSpace } from "diff";
import { dollars, number, plural, signed } from "../../format";
import { promptOf } from "../../parts/cost";
import { useReport } from "../../parts/request";
import { Failure, Loading } from "../../parts/notes";
import { type Column, num, Table, text } from "../../parts/table";
import { ResultLink, TurnInput } from "../../parts/links";
import type { SessionData } from "../../session";
import type { CallUsage, CallView, MessageLine, Price } from "../../types";

/** The form of a message in a prompt: complete, a shorter text, only some of its calls, or omitted. */
type Form = "complete" | "excerpt" | "compaction" | "calls" | "out";

interface Changed {
  position: number;
  line: MessageLine;
  left: Form;
  right: Form;
  /** The texts of both sides, if both have one. */
  texts: [string, string] | null;
}

interface Props {
  data: SessionData;
  turn: number;
  price: Price | null;
  other: number | null;
  onOther: (turn: number | null) => void;
}

/** The number of messages that are compared, the newest ones of a prompt. */
const WINDOW = 2000;

export function Compare({ data, turn, price, other, onOther }: Props) {
  const { last, setting } = data;
  const isSetting = setting !== null;
  const fields = { ...data.branch, rows: 0, window: WINDOW };
  const ready = other !== null && other >= 1 && other <= last && !data.waitsFor(turn);
  const left = useReport<CallView>("get_call", ready ? { ...fields, turn: other } : null);
  const right = useReport<CallView>("get_call", ready ? { ...fields, turn, ...setting } : null);
  const difference = useMemo(
    () => (left.value && right.value ? differenceOf(left.value.messages, right.value.messages) : null),
    [left.value, right.value],
  );
  const toggle = (open: boolean) => {
    if (open !== (other !== null)) onOther(open ? (isSetting ? turn : Math.max(1, turn - 1)) : null);
  };
  const error = left.error ?? right.error;
  const columns: Column<Changed>[] = [
    text("Message", ({ line, position }) =>
      line.role === "tool" ? <ResultLink data={data} position={position} name={line.name} /> : `#${position} ${line.role}`,
    ),
    text(`Turn ${number(other ?? 0)}`, (row) => FORMS[row.left], { kindOf: (row) => (row.left === "out" ? "muted" : row.right === "out" ? "bad" : "") }),
    text(
      `Turn ${number(turn)}${isSetting ? ", with the setting" : ""}`,
      (row) => (row.left === row.right ? `${FORMS[row.right]}, but with other text or calls` : FORMS[row.right]),
      { kindOf: (row) => (row.right === "out" ? "muted" : row.left === "out" ? "good" : "") },
    ),
    num("Tokens", ({ line }) => number(line.tokens + line.calls.reduce((sum, call) => sum + call.tokens, 0))),
    text("Text", ({ line, texts }) => (texts ? <Words texts={texts} /> : line.text.slice(0, 120)), { kindOf: ({ texts }) => (texts ? "mono" : "mono clip") }),
  ];
  return (
    <details class="compare" open={other !== null} onToggle={(event) => toggle(event.currentTarget.open)}>
      <summary>Compare with another call</summary>
      {other !== null && (
        <>
          <p class="toolbar">
            <label class="turn">
              Turn{" "}
              <TurnInput turn={other} last={last} label="Compare with turn" onTurn={onOther} />
            </label>
            {difference && left.value && right.value && !right.busy && (
              <span role="status">
                {plural(difference.changed.length, "message")} differ, {number(difference.same)} are the same;{" "}
                {signed(right.value.explain.tokens_after - left.value.explain.tokens_after)} tokens in turn {number(turn)}
                {isSetting && " with the setting"}
              </span>
            )}
          </p>
          {difference && other < turn && <p>{cacheSentence(difference.end, other, turn, data.turns[other - 1]?.usage, data.turns[turn - 1]?.usage, price)}</p>}
          {error !== null && <Failure error={error} again={left.error ? left.again : right.again} />}
          {!ready && <p class="hint">There is no turn {number(other)}.</p>}
          {ready && error === null && !difference && <Loading what="Reading both prompts…" />}
          {difference && difference.changed.length > 0 && (
            <Table label="Messages that differ" columns={columns} rows={difference.changed} keyOf={({ position }) => position} />
          )}
        </>
      )}
    </details>
  );
}

/** The beginning of a message's text, with the words that only one of two prompts has. */
function Words({ texts: [left, right] }: { texts: [string, string] }) {
  const parts = useMemo(() => diffWordsWithSpace(left, right), [left, right]);
  return (
    <pre>
      {parts.map(({ value, added, removed }) => (added ? <ins>{value}</ins> : removed ? <del>{value}</del> : value))}
    </pre>
  );
}

/** Return up to where a provider can read the later prompt from the cache of the earlier one, what it read, and what the rest cost. */
export function cacheSentence(
  end: number | null, earlier: number, later: number, before: CallUsage | null | undefined, usage: CallUsage | null | undefined, price: Price | null,
): string {
  const repeated = end === null ? "the whole prompt" : `the prompt before message #${end}`;
  const sentence = `Turn ${number(later)} can read ${repeated} of turn ${number(earlier)} from a provider’s cache.`;
  if (!usage) return sentence;
  const read = `${sentence} The provider read ${number(usage.cache_read)} of ${number(promptOf(usage))} prompt tokens from it.`;
  const unread = before ? Math.min(promptOf(before), promptOf(usage)) - usage.cache_read : 0;
  if (unread <= 0 || !price) return read;
  const more = unread * ((usage.cache_write ? price.cache_write : price.uncached) - price.cache_read);
  return `${read} To read all ${number(unread + usage.cache_read)} that the earlier prompt had would have cost ${dollars(more)} less.`;
}

const FORMS: Record<Form, string> = { complete: "complete", excerpt: "excerpt", compaction: "compaction", calls: "only its calls", out: "–" };

interface Difference {
  changed: Changed[];
  same: number;
  /** The position at which the right prompt stops repeating the left one; null if it only adds messages at the end. */
  end: number | null;
}

/** Return the messages that one of two prompts has in another form than the other, in order. */
export function differenceOf(left: MessageLine[], right: MessageLine[]): Difference {
  const sides = [byPosition(left), byPosition(right)];
  const positions = [...new Set(sides.flatMap((side) => [...side.keys()]))].sort((a, b) => a - b);
  const changed: Changed[] = [];
  const last = left.findLast((line) => formOf(line) !== "out")?.position ?? -1;
  let same = 0;
  for (const position of positions) {
    const [leftLine, other] = sides.map((side) => side.get(position));
    const forms = [formOf(leftLine), formOf(other)];
    if (forms[0] === "out" && forms[1] === "out") continue;
    if (forms[0] === forms[1] && textOf(leftLine) === textOf(other)) same++;
    else {
      const isInBoth = forms.every((form) => form !== "out" && form !== "calls");
      changed.push({ position, line: (leftLine ?? other)!, left: forms[0], right: forms[1], texts: isInBoth ? [leftLine!.text, other!.text] : null });
    }
  }
  const end = changed.length > 0 && changed[0].position <= last ? changed[0].position : null;
  return { changed, same, end };
}

const byPosition = (lines: MessageLine[]): Map<number, MessageLine> => new Map(lines.map((line) => [line.position, line]));

function formOf(line: MessageLine | undefined): Form {
  if (!line) return "out";
  if (line.display !== "omitted") return line.display as Form;
  return line.calls.some((call) => call.in_prompt) ? "calls" : "out";
}

const textOf = (line: MessageLine | undefined): string =>
  line ? JSON.stringify([line.text, line.calls.map((call) => call.in_prompt && call.text)]) : "";
