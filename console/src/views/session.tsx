// One session: its figures, its branches, and the views on it.
import { useEffect, useRef, useState } from "preact/hooks";
import { visited } from "../api";
import { ago, budgetOf, date, number, percent, plural, short } from "../format";
import { useAsk, useInterval } from "../parts/load";
import { Empty, Failure, Figure, IN_VIEW, Loading, RESULTS, TURNS } from "../parts/notes";
import { Signed } from "../parts/signed";
import { address, go, type Place, searchAddress, type View, VIEWS } from "../route";
import { stateOf, useSession, type ViewProps } from "../session";
import type { InspectView, ToolView } from "../types";
import { Call } from "./call";
import { Graph } from "./graph";
import { Misses } from "./misses";
import { Results } from "./result";
import { Savings } from "./savings";
import { deleteSession, exportSession } from "./sessions";
import { Share } from "./share";
import { Timeline } from "./timeline";
import { Tools } from "./tools";

const NONE: ToolView[] = [];

export function Session({ place }: { place: Place }) {
  const { session, branch } = place;
  const data = useSession(place);
  const about = useAsk<InspectView>("inspect_session", data.known || data.complete || data.error ? data.line : null);
  const [problem, setProblem] = useState<unknown>(null);
  const [sharing, setSharing] = useState(false);
  useInterval(about.again, 10_000);
  const tabs = useRef<HTMLElement>(null);
  // On a phone the tabs are wider than the page.
  useEffect(() => {
    const current = tabs.current?.querySelector<HTMLElement>("[aria-current]");
    if (tabs.current && current) tabs.current.scrollLeft = current.offsetLeft - tabs.current.offsetLeft - 40;
  }, [place.view, data.known > 0]);
  if (data.error?.status === 404) {
    return (
      <Empty title={branch === null ? "There is no such session" : "There is no such branch"}>
        <p>{data.error.message}</p>
        <p>
          <a href="#/">All sessions</a>
        </p>
      </Empty>
    );
  }
  const remove = async () => {
    if (await deleteSession(session, setProblem)) go("#/");
  };
  const at = about.value?.session.updated_at ?? null;
  const state = stateOf(data.answering, at);
  const damaged = about.value?.damaged ?? "";
  const counted = about.value?.session.counted;
  const line = about.value?.lines.find((found) => found.number === (branch ?? about.value!.head));
  return (
    <section class="session">
      <div class="toolbar">
        <nav aria-label="Breadcrumb">
          {visited() === null ? <a href="#/">Sessions</a> : "Sessions"} <span aria-hidden="true">/</span>
        </nav>
        <h1>{session}</h1>
        {data.complete && <span class={state.live ? "tag live-tag" : "tag"}>{state.text}</span>}
        <span class="spring" />
        <span class="row deeds">
          <a class="button" href={searchAddress({ session })}>
            Search
          </a>
          {visited() === null && (
            <>
              <a class="button" href={`#/store/${encodeURIComponent(`session:${session}`)}`}>
                Graph store
              </a>
              <button aria-expanded={sharing} onClick={() => setSharing(!sharing)}>
                Share
              </button>
              <button onClick={() => exportSession(session).catch(setProblem)}>Export</button>
              <button class="danger-quiet" onClick={remove}>
                Delete
              </button>
            </>
          )}
        </span>
      </div>
      {sharing && <Share session={session} />}
      {problem !== null && <Failure error={problem} />}
      {data.error && <Failure error={data.error} />}
      {damaged && (
        <div class="note bad" role="alert">
          <p>{damaged}. What follows is of what is whole.</p>
        </div>
      )}
      <dl class="panel figures">
        <Figure name="Turns" value={line ? number(line.turns) : "…"} hint={`${TURNS}, in this branch`} />
        <Figure name="Results" value={line ? number(line.results) : "…"} hint={`${RESULTS}, in this branch`} />
        <Figure name="Tokens" value={line ? short(line.tokens) : "…"} hint={line ? `${number(line.tokens)} tokens` : ""} />
        <Figure name="Uses" value={about.value ? number(about.value.uses) : "…"} hint="Texts and calls that used an earlier result" />
        <Figure name="Budget" value={data.budget ? budgetOf(data.budget) : "…"} hint="The session’s own setting, in tokens" />
        <Figure name="Policy" value={data.policy || "…"} />
        {about.value && about.value.lines.length > 1 && (
          <Figure
            name="Branch"
            value={
              <select
                aria-label="Branch"
                value={String(branch ?? about.value.head)}
                onChange={(event) => go(address(session, place.view, null, Number(event.currentTarget.value)))}
              >
                {about.value.lines.map(({ number, fork, parent }) => (
                  <option key={number} value={number}>
                    {number === 0 ? "0, the first" : `${number}, from message ${fork} of ${parent}`}
                    {number === about.value!.head ? " (written last)" : ""}
                  </option>
                ))}
              </select>
            }
          />
        )}
        {counted && counted.full > 0 && (
          <Figure
            name="Tokens saved"
            value={<Signed value={counted.full - counted.prompt}>{`${short(counted.full - counted.prompt)}, ${percent(1 - counted.prompt / counted.full)}`}</Signed>}
            hint="Prompt tokens left out so far, as counted when calls were made"
          />
        )}
        {counted && counted.drawn > 0 && (
          <Figure
            name="In view"
            value={percent(counted.seen / counted.drawn)}
            hint={`${IN_VIEW}: ${number(counted.seen)} of ${number(counted.drawn)}; Misses has the others`}
          />
        )}
        <Figure name="Last activity" value={at ? ago(at) : "…"} hint={at ? date(at) : ""} />
      </dl>
      <nav class="tabs" aria-label="Views of the session" ref={tabs}>
        {(Object.keys(VIEWS) as View[]).map((view) => (
          <a key={view} href={data.to(view)} aria-current={place.view === view ? "page" : undefined}>
            {VIEWS[view]}
          </a>
        ))}
        {!data.complete && !data.error && (
          <span class="progress" role="status">
            <span class="spinner" aria-hidden="true" />
            {data.last ? `${number(data.known)} of ${plural(data.last, "turn")} loaded` : "Loading…"}
          </span>
        )}
      </nav>
      <div id="view" tabIndex={-1}>
        <Content place={place} data={data} damaged={damaged !== ""} declared={about.value?.tools ?? NONE} />
      </div>
    </section>
  );
}

function Content({ damaged, declared, ...props }: ViewProps & { damaged: boolean; declared: ToolView[] }) {
  const { place, data } = props;
  if (data.known === 0) {
    if (data.complete) return <Empty title="The model has not been called yet" />;
    return data.error ? null : <Loading what="Reading what each call was shown…" />;
  }
  if (place.view === "misses") return <Misses {...props} damaged={damaged} />;
  if (place.view === "call") return <Call {...props} />;
  if (place.view === "graph") return <Graph {...props} />;
  if (place.view === "result") return <Results {...props} />;
  if (place.view === "tools") return <Tools data={data} declared={declared} />;
  if (place.view === "savings") return <Savings data={data} />;
  return <Timeline {...props} />;
}
