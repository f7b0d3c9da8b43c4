// The list of the user's sessions, with search and pages, updated while it is open.
import { useState } from "preact/hooks";
import { request } from "../api";
import { ago, date, dollars, number, percent, plural, short } from "../format";
import { SearchBox } from "../parts/controls";
import { Icon } from "../parts/icon";
import { Importing, LocalSessions, type Props as ImportingProps } from "../parts/importing";
import { useInterval, useReport } from "../parts/request";
import { Empty, Failure, Loading, RESULTS, STEPS, TURNS } from "../parts/notes";
import { COSTS, ownPrices } from "../parts/prices";
import { actions, type Column, num, type Sorted, Table, text } from "../parts/table";
import { address, go, type Options, type Place } from "../route";
import { headlineOf, headlineShare } from "../setting";
import type { SessionPage, SessionView } from "../types";

const PAGE = 25;
const LIVE_MS = 5000;

export function Sessions({ place }: { place: Place }) {
  const { query = "", since = "", sort: key = "" } = place.options;
  const sort: Sorted = { key, down: true };
  const [cursors, setCursors] = useState<string[]>([""]);
  const [problem, setProblem] = useState<unknown>(null);
  const page = useReport<SessionPage>("list_sessions", { limit: PAGE, cursor: cursors[cursors.length - 1], query, since, sort: sort.key, prices: ownPrices() });
  const change = (options: Options) => {
    const all = Object.entries({ query, since, sort: key, ...options }).filter(([, value]) => value !== "");
    go(`#/?${new URLSearchParams(Object.fromEntries(all))}`, true);
    setCursors([""]);
  };
  useInterval(page.again, LIVE_MS);
  const sessions = page.value?.sessions ?? [];
  const isFiltered = query !== "" || since !== "";
  const isEmpty = page.value !== null && sessions.length === 0 && !isFiltered;

  const remove = async (session: string) => {
    if (await deleteSession(session, setProblem)) page.again();
  };
  const imported = (names: string[]) => {
    setProblem(null);
    page.again();
    if (names.length === 1) go(address(names[0]));
  };
  const deeds = actions<SessionView>(({ session }) => (
    <>
      <button class="quiet icon" title="Export" aria-label={`Export ${session}`} onClick={() => exportSession(session).then(() => setProblem(null), setProblem)}>
        <Icon name="download" />
      </button>
      <button class="quiet icon" title="Delete" aria-label={`Delete ${session}`} onClick={() => remove(session)}>
        <Icon name="trash" />
      </button>
    </>
  ));

  return (
    <section class="page">
      <div class="toolbar">
        <h1>Sessions</h1>
        <SearchBox
          hint="Name, model, client, tool or folder"
          label="Search sessions by name, model, client, tool or folder"
          value={query}
          onSearch={(text) => text !== query && change({ query: text })}
        />
        <label>
          Active since <input type="date" value={since} onChange={(event) => change({ since: event.currentTarget.value })} />
        </label>
        {!isEmpty && <Importing onDone={imported} onFailure={setProblem} />}
      </div>
      {problem !== null && <Failure error={problem} />}
      {page.error !== null && <Failure error={page.error} again={page.again} />}
      {page.value === null && page.busy && <Loading what="Loading sessions…" />}
      {isEmpty && <NoSessions onDone={imported} onFailure={setProblem} />}
      {page.value !== null && sessions.length === 0 && isFiltered && (
        <Empty title={`No session has ${[query && `“${query}”`, since && `activity since ${since}`].filter(Boolean).join(" and ")}`} />
      )}
      {sessions.length > 0 && (
        <Table
          label="Sessions"
          kind="sessions"
          columns={[...COLUMNS, deeds]}
          rows={sessions}
          keyOf={({ session }) => session}
          sort={sort}
          onSort={({ key, down }) => change({ sort: down ? key : "" })}
        />
      )}
      {(cursors.length > 1 || page.value?.next) && (
        <nav class="pager" aria-label="Pages">
          <button disabled={cursors.length === 1} onClick={() => setCursors(cursors.slice(0, -1))}>
            <Icon name="left" /> Newer
          </button>
          <span>Page {cursors.length}</span>
          <button disabled={!page.value?.next} onClick={() => setCursors([...cursors, page.value!.next!])}>
            Older <Icon name="right" />
          </button>
        </nav>
      )}
    </section>
  );
}

const unrecorded = ({ totals: counted }: SessionView) => (counted.calls === 0 ? "Only recorded: open the session to recompute its calls" : undefined);
const toolsOf = ({ tools }: SessionView) => Object.entries(tools).sort((one, other) => other[1] - one[1]);

/** `by` is the server's name of the order. */
const COLUMNS: Column<SessionView>[] = [
  text("Session", (view) => <Name view={view} />),
  num("Turns", (view) => number(view.turns), { hint: TURNS, by: "turns" }),
  num("Results", (view) => number(view.results), { hint: RESULTS }),
  num("Size", ({ tokens }) => <>{short(tokens)} <small>tokens</small></>, {
    title: (view) => `${number(view.tokens)} tokens, ${plural(view.messages, "message")}`,
    by: "tokens",
  }),
  num("Tokens saved", ({ totals: { calls, full, prompt } }) => (
    <>
      {calls === 0 ? "–" : short(full - prompt)} {full > 0 && <small>{percent((full - prompt) / full)}</small>}
    </>
  ), {
    hint: "Prompt tokens omitted so far, out of those of the full history, counted when each call was made",
    title: (view) => unrecorded(view) ?? `${number(view.totals.full - view.totals.prompt)} prompt tokens in ${plural(view.totals.calls, "call")}`,
    by: "saved",
  }),
  num("Cost", ({ totals: { cost, is_estimate } }) => (cost === null ? "–" : `${is_estimate ? "~" : ""}${dollars(cost)}`), { hint: COSTS, title: unrecorded, by: "cost" }),
  num("Steps with all values", ({ totals }) => headlineShare(totals), { hint: STEPS, title: (view) => unrecorded(view) ?? headlineOf(view.totals) }),
  num("Tools", (view) => {
    const [mostUsed, ...others] = toolsOf(view);
    return (
      <>
        <span class="clip">{mostUsed?.[0]}</span> {others.length > 0 && <small>+{others.length}</small>}
      </>
    );
  }, {
    hint: "The tool it called most often, and the number of other tools; sorted by the calls of the tools searched for, or of all",
    title: (view) => toolsOf(view).map(([name, times]) => `${name} ${number(times)}`).join("\n"),
    by: "tools",
  }),
  text("Last activity", (view) => ago(view.updated_at), { title: (view) => date(view.updated_at), by: "last" }),
];

function Name({ view }: { view: SessionView }) {
  const description = [view.client, view.totals.models.join(", "), view.about].filter(Boolean).join(" · ");
  return (
    <>
      <a href={address(view.session)}>{view.session}</a>
      {view.branches > 1 && <span class="tag">{plural(view.branches, "branch", "branches")}</span>}
      {view.damage && (
        <span class="tag failed" title={view.damage}>
          damaged
        </span>
      )}
      {description && <small class="about">{description}</small>}
    </>
  );
}

function NoSessions(props: ImportingProps) {
  return (
    <Empty title="No sessions yet">
      <p>See one now:</p>
      <LocalSessions {...props} />
      <Importing large {...props} />
      <p>
        Files may be sessions of Claude Code, Codex, opencode, pi, OpenClaw or Hermes, requests of OpenAI’s or Anthropic’s API, or
        exports.
      </p>
      <p>
        A session also appears here with an agent’s first model call through ContextRender: run your agent with{" "}
        <code>contextrender wrap AGENT</code>, point its base URL at <code>contextrender proxy</code>, or call{" "}
        <code>client.fit(session, messages)</code> before each model call.
      </p>
    </Empty>
  );
}

/** Delete a session after a confirmation. Return whether it was deleted; pass an error to `onFailure`. */
export async function deleteSession(session: string, onFailure: (error: unknown) => void): Promise<boolean> {
  if (!confirm(`Delete the session “${session}” for good?`)) return false;
  try {
    await request("delete_session", { session });
    return true;
  } catch (error) {
    onFailure(error);
    return false;
  }
}

/** Save a session's export as a file. */
export async function exportSession(session: string): Promise<void> {
  const view = await request<object>("export_session", { session });
  const url = URL.createObjectURL(new Blob([JSON.stringify(view)], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `${session.replace(/[^\w.-]+/g, "_").slice(0, 80) || "session"}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
