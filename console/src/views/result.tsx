// A result's complete content, its values marked by use, and a list to find results in.
// Long because the list and the content follow each other, part by part.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { request } from "../api";
import { number, plural, ranges } from "../format";
import { SearchBox } from "../parts/controls";
import { Copy } from "../parts/copy";
import { useReport, useTask } from "../parts/request";
import { Marked } from "../parts/marked";
import { Empty, Failure, Loading, MORE, More } from "../parts/notes";
import { plain, type Reading, readableArguments, readingOf } from "../parts/reading";
import { Trace } from "../parts/trace";
import { OMITTED, type Result, type SessionData, type ViewProps } from "../session";
import type { ContentView, RecallView } from "../types";

const PART = 1 << 17;
const LAID_OUT_AT_MOST = 1 << 21;
const BLOCK = 24_000;

export function Results({ place, data }: ViewProps) {
  const chosenPosition = place.item ?? data.results[data.results.length - 1]?.position ?? null;
  if (chosenPosition === null) return <Empty title="No tool has been called yet" />;
  return (
    <div class="results">
      <Finder data={data} chosen={chosenPosition} />
      <Content key={chosenPosition} data={data} position={chosenPosition} />
    </div>
  );
}

function Finder({ data, chosen }: { data: SessionData; chosen: number }) {
  const [query, setQuery] = useState("");
  const [limit, setLimit] = useState(200);
  const report = useReport<RecallView>(
    "recall",
    query ? { ...data.branch, query, limit: 30 } : null,
  );
  const rows: Result[] = query
    ? (report.value?.results ?? []).map((row) => data.resultAt(row.position)).filter((row) => row !== undefined)
    : [...data.results].reverse();
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => list.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" }), [chosen]);
  return (
    <nav class="finder" aria-label="Results">
      <SearchBox value={query} hint="Search contents" label="Search results by content" onSearch={setQuery} />
      {query && report.busy && <Loading what="Searching…" />}
      {query && report.error !== null && <Failure error={report.error} />}
      {query && !report.busy && rows.length === 0 && <p class="hint">No result matches.</p>}
      <ol ref={list} class="panel plain">
        {rows.slice(0, limit).map((row) => (
          <li key={row.number}>
            <a
              href={data.to("result", row.position)}
              aria-current={row.position === chosen ? "true" : undefined}
            >
              <span>
                #{row.position} {data.tools[row.tool] || "tool"}
              </span>
              <small>
                {number(row.tokens)} tokens · turn {row.turn}
                {data.usedAt[row.number]?.length ? ` · used ${data.usedAt[row.number].length}×` : ""}
              </small>
            </a>
          </li>
        ))}
      </ol>
      <More there={limit} all={rows.length} onMore={() => setLimit(limit + MORE)} />
    </nav>
  );
}

function Content({ data, position }: { data: SessionData; position: number }) {
  const [loadedParts, setKnown] = useState<ContentView[]>([]);
  const read = async (tell: (parts: ContentView[]) => void, signal: AbortSignal) => {
    const fields = { ...data.branch, position, start: lengthOf(loadedParts), characters: PART };
    tell([...loadedParts, await request<ContentView>("read_message", fields, signal)]);
  };
  const { value: parts, error } = useTask<ContentView[]>([], read, [loadedParts]);
  const more = () => setKnown([...parts]);
  const [laidOut, setLaidOut] = useState(true);
  const [value, setValue] = useState<string | null>(null);
  const head = parts[0];
  const characters = lengthOf(parts);
  const isComplete = head !== undefined && characters >= head.length;
  const text = useMemo(() => parts.map((part) => part.text).join(""), [parts]);
  const reading = useMemo(() => (isComplete && text.length <= LAID_OUT_AT_MOST ? readingOf(text) : null), [isComplete, text]);
  const layout = laidOut ? reading : null;
  if (!head) return error !== null ? <Failure error={error} again={more} /> : <Loading what="Reading…" />;
  const args = readableArguments(head.arguments);
  const values = head.used_values.map((use) => use.value);
  const marked = { values, chosen: value, onValue: (usedValue: string) => setValue(usedValue === value ? null : usedValue) };
  return (
    <article class="panel content">
      <header>
        <h2>
          #{position} {head.name || head.role}
        </h2>
        <p class="muted">
          turn {head.turn} · {plural(head.tokens, "token")} · {plural(head.length, "character")}
        </p>
        <Shown data={data} position={position} />
      </header>
      {head.arguments && (
        <details open={args.length < 600}>
          <summary>Arguments of the call</summary>
          <pre>{args}</pre>
        </details>
      )}
      {values.length > 0 && (
        <p class="used">
          <strong>Used values</strong>{" "}
          {head.used_values.slice(0, 60).map(({ value: used, uses }) => (
            <button
              key={used}
              class={used === value ? "mono value chosen" : "mono value"}
              aria-pressed={used === value}
              onClick={() => marked.onValue(used)}
            >
              {used} <small>×{uses.length}</small>
            </button>
          ))}
          {values.length > 60 && <small> and {values.length - 60} more</small>}
        </p>
      )}
      {value !== null && <Trace data={data} value={value} onClose={() => setValue(null)} />}
      <div class="toolbar">
        <h3>Content</h3>
        <span class="spring" />
        {reading !== null && (
          <label class="check">
            <input type="checkbox" checked={laidOut} onChange={(event) => setLaidOut(event.currentTarget.checked)} /> lay out {reading.name}
          </label>
        )}
        {isComplete && <Copy text={text} />}
      </div>
      <Blocks text={layout?.text ?? text} paint={layout?.paint ?? plain} marked={marked} />
      {layout?.images.map((image) => (
        <img key={image} src={image} alt={`In the result of ${head.name}`} />
      ))}
      {error !== null && <Failure error={error} />}
      {!isComplete && (
        <button class="wide" onClick={more}>
          Load more: {number(head.length - characters)} of {number(head.length)} characters left
        </button>
      )}
    </article>
  );
}

/** Return the number of characters as the server counts them. */
const lengthOf = (parts: ContentView[]): number => parts.reduce((sum, part) => sum + [...part.text].length, 0);

type MarkedProps = Omit<Parameters<typeof Marked>[0], "text">;

/** A long text that is loaded block by block as the reader scrolls. */
function Blocks({ text, paint, marked }: { text: string; paint: Reading["paint"]; marked: MarkedProps }) {
  const blocks = useMemo(() => cut(text), [text]);
  const [count, setCount] = useState(2);
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (count >= blocks.length) return;
    const watch = new IntersectionObserver(([entry]) => entry.isIntersecting && setCount((now) => now + 2), { rootMargin: "800px" });
    watch.observe(end.current!);
    return () => watch.disconnect();
  }, [count, blocks]);
  if (text === "") return <p class="hint">Empty.</p>;
  return (
    <div class="blocks">
      {blocks.slice(0, count).map((block, index) => (
        <pre key={index}>
          {paint(block).map((segment, place) => (
            <span key={place} class={segment.kind}>
              <Marked text={segment.text} {...marked} />
            </span>
          ))}
        </pre>
      ))}
      <div ref={end} />
    </div>
  );
}

function cut(text: string): string[] {
  const blocks: string[] = [];
  for (let start = 0; start < text.length; ) {
    let end = Math.min(text.length, start + BLOCK);
    if (end < text.length) {
      const line = text.lastIndexOf("\n", end);
      if (line > start) end = line + 1;
    }
    // A line break at the end of a block would add to the break between blocks.
    blocks.push(text.slice(start, end).replace(/\n$/, ""));
    start = end;
  }
  return blocks;
}

function Shown({ data, position }: { data: SessionData; position: number }) {
  const result = data.resultAt(position);
  if (!result) return null;
  const turns: number[] = [];
  for (let turn = 0; turn < data.turns.length; turn++) if (data.state(turn, result.number) > OMITTED) turns.push(turn + 1);
  const uses = data.usedAt[result.number] ?? [];
  return (
    <p>
      {turns.length ? <>Shown at {turns.length === 1 ? "turn" : "turns"} {ranges(turns)}.</> : "Not shown to any call yet."}{" "}
      {uses.length > 0 && (
        <>
          Used at {uses.length === 1 ? "turn" : "turns"}{" "}
          {uses.map((turn, index) => (
            <>
              {index > 0 && ", "}
              <a href={data.to("call", turn)}>{turn}</a>
            </>
          ))}
          .
        </>
      )}
    </p>
  );
}
