// What sessions hold: a text in results, calls and messages, of one session or of all.
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
/** How many characters come with what was found, on each side. */
const AROUND = 90;

interface Looked {
  found: MatchView[];
  events: number;
  sessions: number;
  next: string | null;
}

const NOTHING: Looked = { found: [], events: 0, sessions: 0, next: "" };

/** `asked` is in the address; this begins anew where it changes. */
export function Search({ asked }: { asked: Options }) {
  const { text = "", session = "", tool = "", errors = "" } = asked;
  const given = text !== "" || tool !== "" || errors !== "";
  const [from, setFrom] = useState(NOTHING);
  /** Looks on until a page is full; each answer is a moment's work of the server's. */
  const look = async (tell: (looked: Looked) => void, signal: AbortSignal) => {
    const wanted = from.found.length + PAGE;
    const fields = { query: text, tool, errors: errors !== "", ...(session ? { session } : {}) };
    for (let now = from; given && now.next !== null && now.found.length < wanted; tell(now)) {
      const page = await request<SearchView>("search", { ...fields, limit: wanted - now.found.length, cursor: now.next }, signal);
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
  const told = `${plural(looked.events, "message, call or result", "messages, calls and results")} of ${plural(looked.sessions, "session")} searched`;
  return (
    <section class="page">
      <div class="toolbar">
        <h1>Search</h1>
        <form class="row" onSubmit={search}>
          <label class="search">
            <Icon name="search" />
            <input type="search" name="text" placeholder="Text to find" aria-label="Text to find" defaultValue={text} autofocus={!given} maxLength={1000} />
          </label>
          <input name="session" placeholder="All sessions" aria-label="Session" defaultValue={session} maxLength={200} />
          <input name="tool" placeholder="Any tool" aria-label="Tool" defaultValue={tool} maxLength={200} />
          <label class="check">
            <input type="checkbox" name="errors" value="1" defaultChecked={errors !== ""} /> Errors only
          </label>
          <button class="primary">Search</button>
        </form>
      </div>
      {!given && (
        <Empty title="Search what sessions hold">
          <p>
            Contents and values of results, names of tools and their arguments, messages: as they are written, in
            capitals or not. <b>Errors only</b> shows the results of failed calls.
          </p>
        </Empty>
      )}
      {error !== null && <Failure error={error} again={() => setFrom({ ...looked })} />}
      {given && looked.next === null && looked.found.length === 0 && <Empty title="Nothing found" />}
      <ol class="panel plain found">
        {looked.found.map((one, place) => (
          <li key={place}>
            <Found one={one} />
          </li>
        ))}
      </ol>
      {given && (
        <p class="hint" role="status">
          {busy ? `Searching… ${number(looked.events)} searched so far.` : `${told}. `}
          {!busy && looked.next !== null && <button onClick={() => setFrom(looked)}>Search further</button>}
        </p>
      )}
    </section>
  );
}

function Found({ one }: { one: MatchView }) {
  const where =
    one.kind === "result"
      ? address(one.session, "result", one.position, one.branch)
      : address(one.session, "call", Math.max(one.turn, 1), one.branch);
  return (
    <>
      <a href={where}>
        {one.session} · turn {number(one.turn)} · #{one.position} {one.name || one.kind}
      </a>{" "}
      <span class="tag">{one.kind}</span>
      {one.failed && <span class="tag failed">error</span>}
      {one.count > 1 && <small> {number(one.count)} places</small>}
      <p class="mono">
        {one.text_before.length >= AROUND && "…"}
        {one.text_before}
        <mark>{one.match}</mark>
        {one.text_after}
        {one.text_after.length >= (one.match ? AROUND : 2 * AROUND) && "…"}
      </p>
    </>
  );
}
