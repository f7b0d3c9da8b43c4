// One session: its figures, its branches, and the views on it.
import { useEffect, useRef, useState } from "preact/hooks";
import { linkedSession } from "../api";
import { ago, budgetOf, date, number, percent, plural, short } from "../format";
import { useReport, useInterval } from "../parts/request";
import { Empty, Failure, Figure, Loading, RESULTS, STEPS, TURNS, USES } from "../parts/notes";
import { Signed } from "../parts/cost";
import { address, go, type Place, searchAddress, type View, VIEWS } from "../route";
import { describeState, type SessionData, useSession } from "../session";
import { headlineOf, headlineShare, isSame, settingOf } from "../setting";
import type { InspectView, ToolView } from "../types";
import { Call } from "./call";
import { Diagnosis } from "./diagnosis";
import { Graph } from "./graph";
import { Misses } from "./misses";
import { Results } from "./result";
import { Savings } from "./savings";
import { deleteSession, exportSession } from "./sessions";
import { Outcome, Settings } from "./settings";
import { Share } from "./share";
import { Timeline } from "./timeline";
import { Tools } from "./tools";

const NONE: ToolView[] = [];

export function Session({ place }: { place: Place }) {
  const { session, branch } = place;
  const own = useSession(place, null)!;
  const named = own.policy ? settingOf(place.options, own) : null;
  const setting = named && !isSame(named, own) && SETTING_VIEWS.includes(place.view) ? named : null;
  const tried = useSession(place, setting, setting !== null);
  const data = tried ?? own;
  const about = useReport<InspectView>("inspect_session", own.loaded || own.complete || own.error ? own.branch : null);
  const [problem, setProblem] = useState<unknown>(null);
  const [sharing, setSharing] = useState(false);
  useInterval(about.again, 10_000);
  const tabs = useRef<HTMLElement>(null);
  // On a phone the tabs are wider than the page.
  useEffect(() => {
    const current = tabs.current?.querySelector<HTMLElement>("[aria-current]");
    if (tabs.current && current) tabs.current.scrollLeft = current.offsetLeft - tabs.current.offsetLeft - 40;
  }, [place.view, own.loaded > 0]);
  if (own.error?.status === 404) {
    return (
      <Empty title={branch === null ? "There is no such session" : "There is no such branch"}>
        <p>{own.error.message}</p>
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
  const state = describeState(own.isAnswering, at);
  const corrupted = about.value?.session.damage ?? "";
  const counted = about.value?.session.totals;
  const line = about.value?.branches.find((found) => found.number === (branch ?? about.value!.head));
  return (
    <section class="session">
      <div class="toolbar">
        <nav aria-label="Breadcrumb">
          {linkedSession() === null ? <a href="#/">Sessions</a> : "Sessions"} <span aria-hidden="true">/</span>
        </nav>
        <h1>{session}</h1>
        {own.complete && <span class={state.live ? "tag live-tag" : "tag"}>{state.text}</span>}
        <span class="spring" />
        <span class="row deeds">
          <a class="button" href={searchAddress({ session })}>
            Search
          </a>
          {linkedSession() === null && (
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
      {own.error && <Failure error={own.error} />}
      {corrupted && (
        <div class="note bad" role="alert">
          <p>{corrupted}. The figures below are of the intact part.</p>
        </div>
      )}
      <dl class="panel figures">
        <Figure name="Steps with all values" value={own.complete ? headlineShare(own.counts) : "…"} hint={own.complete ? headlineOf(own.counts) : STEPS} />
        <Figure name="Turns" value={line ? number(line.turns) : "…"} hint={`${TURNS}, in this branch`} />
        <Figure name="Results" value={line ? number(line.results) : "…"} hint={`${RESULTS}, in this branch`} />
        <Figure name="Tokens" value={line ? short(line.tokens) : "…"} hint={line ? `${number(line.tokens)} tokens` : ""} />
        <Figure name="Uses" value={own.complete ? number(own.counts.uses) : "…"} hint={USES} />
        <Figure name="Budget" value={own.budget ? budgetOf(own.budget) : "…"} hint="The session’s own setting, in tokens" />
        <Figure name="Policy" value={own.policy || "…"} />
        {about.value && about.value.branches.length > 1 && (
          <Figure
            name="Branch"
            value={
              <select
                aria-label="Branch"
                value={String(branch ?? about.value.head)}
                onChange={(event) => go(address(session, place.view, null, Number(event.currentTarget.value)))}
              >
                {about.value.branches.map(({ number, fork_position: fork, parent }) => (
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
            hint="Prompt tokens omitted so far, counted when each call was made"
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
        {!own.complete && !own.error && (
          <span class="progress" role="status">
            <span class="spinner" aria-hidden="true" />
            {own.last ? `${number(own.loaded)} of ${plural(own.last, "turn")} loaded` : "Loading…"}
          </span>
        )}
      </nav>
      <div id="view" tabIndex={-1}>
        <Content place={place} own={own} tried={tried} isCorrupted={corrupted !== ""} isRecorded={counted?.calls === 0} declared={about.value?.tools ?? NONE} />
      </div>
    </section>
  );
}

interface ContentProps extends Tried {
  place: Place;
  isCorrupted: boolean;
  isRecorded: boolean;
  declared: ToolView[];
}

function Content({ isCorrupted, isRecorded, declared, own, tried, place }: ContentProps) {
  const data = tried ?? own;
  const props = { place, data };
  const outcome = SETTING_VIEWS.includes(place.view) && <Outcome place={place} own={own} tried={tried} />;
  if (data.loaded === 0) {
    if (data.complete) return <Empty title="The model has not been called yet" />;
    return data.error ? outcome || null : <Loading what="Reading the prompt of each call…" />;
  }
  if (place.view === "graph") return <Graph {...props} />;
  if (place.view === "result") return <Results {...props} />;
  if (place.view === "tools") return <Tools data={data} declared={declared} />;
  return (
    <>
      {outcome}
      {place.view === "misses" && <Diagnosis data={own} isRecorded={isRecorded} />}
      {place.view === "misses" && <Misses {...props} isCorrupted={isCorrupted} />}
      {place.view === "call" && <Call {...props} />}
      {place.view === "savings" && <Savings data={data} />}
      {place.view === "timeline" && <Timeline {...props} />}
      {place.view === "timeline" && own.complete && own.answers > 0 && <Settings place={place} own={own} tried={tried} />}
    </>
  );
}

interface Tried {
  own: SessionData;
  tried: SessionData | null;
}

/** The views that show the session under the setting of the address. */
const SETTING_VIEWS: View[] = ["timeline", "misses", "savings", "call"];
