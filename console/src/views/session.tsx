// One session: its figures, its branches, and the views on it.
import { useEffect, useRef, useState } from "preact/hooks";
import { linkedSession } from "../api";
import { ago, budgetOf, date, number, percent, plural, short } from "../format";
import { useReport, useInterval } from "../parts/request";
import { Empty, Failure, Figure, Loading, RESULTS, STEPS, TURNS, USES } from "../parts/notes";
import { Signed } from "../parts/cost";
import { address, go, type Place, searchAddress, type View, VIEWS } from "../route";
import { describeState, type SessionData, useSession } from "../session";
import { headlineOf, headlineShare, isSame, nameOf, settingOf } from "../setting";
import type { InspectView, SessionTotals } from "../types";
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

export function Session({ place }: { place: Place }) {
  const { session, branch } = place;
  const recordedSession = useSession(place, null)!;
  const addressSetting = recordedSession.policy ? settingOf(place.options, recordedSession) : null;
  const setting = addressSetting && !isSame(addressSetting, recordedSession) && SETTING_VIEWS.includes(place.view) ? addressSetting : null;
  const recomputedSession = useSession(place, setting, setting !== null);
  const data = recomputedSession ?? recordedSession;
  const about = useReport<InspectView>("inspect_session", recordedSession.loaded || recordedSession.complete || recordedSession.error ? recordedSession.branch : null);
  const [problem, setProblem] = useState<unknown>(null);
  const [sharing, setSharing] = useState(false);
  useInterval(about.again, 10_000);
  const tabs = useRef<HTMLElement>(null);
  // On a phone the tabs are wider than the page, so the current one is scrolled into view.
  useEffect(() => {
    const current = tabs.current?.querySelector<HTMLElement>("[aria-current]");
    if (tabs.current && current) tabs.current.scrollLeft = current.offsetLeft - tabs.current.offsetLeft - 40;
  }, [place.view, recordedSession.loaded > 0]);
  if (recordedSession.error?.status === 404) {
    return (
      <Empty title={branch === null ? "There is no such session" : "There is no such branch"}>
        <p>{recordedSession.error.message}</p>
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
  const state = describeState(recordedSession.isAnswering, at);
  const corrupted = about.value?.session.damage ?? "";
  const totals = about.value?.session.totals;
  const line = about.value?.branches.find((candidate) => candidate.number === (branch ?? about.value!.head));
  return (
    <section class="session">
      <div class="toolbar">
        <nav aria-label="Breadcrumb">
          {linkedSession() === null ? <a href="#/">Sessions</a> : "Sessions"} <span aria-hidden="true">/</span>
        </nav>
        <h1>{session}</h1>
        {recordedSession.complete && <span class={state.live ? "tag live-tag" : "tag"}>{state.text}</span>}
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
      {recordedSession.error && <Failure error={recordedSession.error} />}
      {corrupted && (
        <div class="note bad" role="alert">
          <p>{corrupted}. The figures below are of the intact part.</p>
        </div>
      )}
      <dl class="panel figures">
        <Figure name="Steps with all values" value={recordedSession.complete ? headlineShare(recordedSession.counts) : "…"} hint={recordedSession.complete ? headlineOf(recordedSession.counts) : STEPS} />
        <Figure name="Turns" value={line ? number(line.turns) : "…"} hint={`${TURNS}, in this branch`} />
        <Figure name="Results" value={line ? number(line.results) : "…"} hint={`${RESULTS}, in this branch`} />
        <Figure name="Tokens" value={line ? short(line.tokens) : "…"} hint={line ? `${number(line.tokens)} tokens` : ""} />
        <Figure name="Uses" value={recordedSession.complete ? number(recordedSession.counts.uses) : "…"} hint={USES} />
        <Figure name="Budget" value={recordedSession.budget ? budgetOf(recordedSession.budget) : "…"} hint="The session’s own setting, in tokens" />
        <Figure name="Policy" value={recordedSession.policy || "…"} />
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
        {totals && totals.full > 0 && (
          <Figure
            name="Tokens saved"
            value={<Signed value={totals.full - totals.prompt}>{`${short(totals.full - totals.prompt)}, ${percent(1 - totals.prompt / totals.full)}`}</Signed>}
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
        {!recordedSession.complete && !recordedSession.error && (
          <span class="progress" role="status">
            <span class="spinner" aria-hidden="true" />
            {recordedSession.last ? `${number(recordedSession.loaded)} of ${plural(recordedSession.last, "turn")} loaded` : "Loading…"}
          </span>
        )}
      </nav>
      <div id="view" tabIndex={-1}>
        <Content place={place} own={recordedSession} tried={recomputedSession} isCorrupted={corrupted !== ""} counted={totals} />
      </div>
    </section>
  );
}

interface ContentProps extends Tried {
  place: Place;
  isCorrupted: boolean;
  /** The totals that were counted with the session's calls, once they are loaded. */
  counted: SessionTotals | undefined;
}

function Content({ isCorrupted, counted, own, tried, place }: ContentProps) {
  const data = tried ?? own;
  const props = { place, data };
  const outcome = SETTING_VIEWS.includes(place.view) && <Outcome place={place} own={own} tried={tried} />;
  if (!data.loaded && (place.view !== "timeline" || !data.turns.length)) {
    if (data.complete) return <Empty title="The model has not been called yet" />;
    return data.error ? outcome || null : <Loading what="Reading the prompt of each call…" />;
  }
  if (place.view === "graph") return <Graph {...props} />;
  if (place.view === "result") return <Results {...props} />;
  if (place.view === "tools") return <Tools {...props} />;
  return (
    <>
      {outcome}
      {place.view === "misses" && <Diagnosis data={own} isRecorded={counted?.calls === 0} />}
      {counted?.calls === 0 && !tried && <p class="hint">No call of this session went through ContextRender. This is a replay under {nameOf(own)}.</p>}
      {place.view === "misses" && <Misses {...props} isCorrupted={isCorrupted} />}
      {place.view === "call" && <Call {...props} />}
      {place.view === "savings" && <Savings data={data} counted={tried ? undefined : counted} />}
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
