// A search for a text in results, calls and messages, of one session or of all.
import { useState } from "preact/hooks";
import { request } from "../api";
import { number, plural } from "../format";
import { submitted } from "../parts/controls";
import { Icon } from "../parts/icon";
import { useTask } from "../parts/request";
import { Empty, Failure } from "../parts/notes";
import { address, go, type Options, searchAddress } from "../route";
import type { MatchView, SearchView } from "../types";

const PAGE = 25;
/** The number of characters shown on each side of a match. */
const AROUND = 90;

interface Looked {
  found: MatchView[];
  events: number;
  sessions: number;
  next: string | null;
}

const NOTHING: Looked = { found: [], events: 0, sessions: 0, next: "" };

/** The matches of a search. `asked` is in the address; a change starts another search. */
export function Search({ asked: options }: { asked: Options }) {
  const { text = "", session = "", tool = "", errors = "" } = options;
  const hasQuery = text !== "" || tool !== "" || errors !== "";
  const [from, setFrom] = useState(NOTHING);
  /** Continue the search until a page is full. The server works a limited time for each reply. */
  const look = async (tell: (looked: Looked) => void, signal: AbortSignal) => {
    const target = from.found.length + PAGE;
    const fields = { query: text, tool, errors: errors !== "", ...(session ? { session } : {}) };
    for (let now = from; hasQuery && now.next !== null && now.found.length < target; tell(now)) {
      const page = await request<SearchView>("search", { ...fields, limit: target - now.found.length, cursor: now.next }, signal);
      now = {
        found: [...now.found, ...page.matches],
        events: now.events + page.events,
        sessions: now.sessions + page.sessions,
        next: page.next,
      };
    }
  };
  const { value: looked, error, busy } = useTask(NOTHING, look, [from]);

  const search = submitted((field) =>
    go(searchAddress({ text: field("text"), session: field("session"), tool: field("tool"), errors: field("errors") })),
  );
  const progress = `${plural(looked.events, "message, call or result", "messages, calls and results")} of ${plural(looked.sessions, "session")} searched`;
  return (
    <section class="page">
      <div class="toolbar">
        <h1>Search</h1>
        <form class="row" onSubmit={search}>
          <label class="search">
            <Icon name="search" />
            <input type="search" name="text" placeholder="Text to find" aria-label="Text to find" defaultValue={text} autofocus={!hasQuery} maxLength={1000} />
          </label>
          <input name="session" placeholder="All sessions" aria-label="Session" defaultValue={session} maxLength={200} />
          <input name="tool" placeholder="Any tool" aria-label="Tool" defaultValue={tool} maxLength={200} />
          <label class="check">
            <input type="checkbox" name="errors" value="1" defaultChecked={errors !== ""} /> Errors only
          </label>
          <button class="primary">Search</button>
        </form>
      </div>
      {!hasQuery && (
        <Empty title="Search what sessions hold">
          <p>
            Contents and values of results, names of tools and their arguments, messages: as they are written, in
            capitals or not. <b>Errors only</b> shows the results of failed calls.
          </p>
        </Empty>
      )}
      {error !== null && <Failure error={error} again={() => setFrom({ ...looked })} />}
      {hasQuery && looked.next === null && looked.found.length === 0 && <Empty title="Nothing found" />}
      <ol class="panel plain found">
        {looked.found.map((one, place) => (
          <li key={place}>
            <Found one={one} />
          </li>
        ))}
      </ol>
      {hasQuery && (
        <p class="hint" role="status">
          {busy ? `Searching… ${number(looked.events)} searched so far.` : `${progress}. `}
          {!busy && looked.next !== null && <button onClick={() => setFrom(looked)}>Search further</button>}
        </p>
      )}
    </section>
  );
}

function Found({ one: match }: { one: MatchView }) {
  const href =
    match.kind === "result"
      ? address(match.session, "result", match.position, match.branch)
      : address(match.session, "call", Math.max(match.turn, 1), match.branch);
  return (
    <>
      <a href={href}>
        {match.session} · turn {number(match.turn)} · #{match.position} {match.name || match.kind}
      </a>{" "}
      <span class="tag">{match.kind}</span>
      {match.failed && <span class="tag failed">error</span>}
      {match.count > 1 && <small> {number(match.count)} places</small>}
      <p class="mono">
        {match.text_before.length >= AROUND && "…"}
        {match.text_before}
        <mark>{match.match}</mark>
        {match.text_after}
        {match.text_after.length >= (match.match ? AROUND : 2 * AROUND) && "…"}
      </p>
    </>
  );
}
