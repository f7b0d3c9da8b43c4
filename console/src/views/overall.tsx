// What rendering saved over all sessions.
import { useEffect, useState } from "preact/hooks";
import { ask, isAbort } from "../api";
import { dollars, number, percent, plural, short } from "../format";
import { measured, useMeasures } from "../parts/measure";
import { Empty, Failure, Figure, Loading } from "../parts/notes";
import { address } from "../route";
import type { PolicyView, SessionPage, SessionView } from "../types";

const MOST = 400;

export function Overall() {
  const [sessions, setSessions] = useState<SessionView[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const stop = new AbortController();
    const load = async () => {
      const found: SessionView[] = [];
      for (let cursor: string | null = ""; cursor !== null && found.length < MOST; ) {
        const page: SessionPage = await ask<SessionPage>("list_sessions", { limit: 200, cursor }, stop.signal);
        found.push(...page.sessions);
        cursor = page.next;
      }
      setSessions(found);
    };
    load().catch((problem) => !isAbort(problem) && setError(problem));
    return () => stop.abort();
  }, []);
  useMeasures(sessions ?? []);
  if (error !== null) return <Failure error={error} />;
  if (sessions === null) return <Loading what="Loading sessions…" />;
  if (sessions.length === 0) return <Empty title="No sessions yet" />;
  const rows = sessions
    .map((view) => ({ view, found: measured(view.session) }))
    .filter((row) => row.found !== undefined)
    .sort((a, b) => saved(b.found!.totals) - saved(a.found!.totals));
  const done = rows.filter((row) => row.found!.complete).length;
  const sum = (of: (totals: PolicyView) => number, only = (_: PolicyView) => true) =>
    rows.reduce((total, { found }) => total + (only(found!.totals) ? of(found!.totals) : 0), 0);
  const prompt = sum((t) => t.prompt);
  const full = sum((t) => t.full);
  const events = sum((t) => t.events);
  const over = (t: PolicyView) => t.over_budget;
  const most = Math.max(1, ...rows.map((row) => row.found!.totals.full));
  return (
    <section class="page">
      <div class="heading">
        <h1>Savings over all sessions</h1>
        {done < sessions.length && (
          <span class="live" role="status">
            <span class="spinner" aria-hidden="true" /> {number(done)} of {plural(sessions.length, "session")} measured
          </span>
        )}
      </div>
      <dl class="figures">
        <Figure name="Tokens saved" value={short(full - prompt)} hint={`${number(full - prompt)} prompt tokens`} />
        <Figure name="Of full history" value={percent(full ? (full - prompt) / full : 0)} />
        <Figure
          name="Cost, paper’s formula"
          value={`${dollars(sum((t) => t.cost.paper, over))} of ${dollars(sum((t) => t.full_cost.paper, over))}`}
          hint="Sessions whose history exceeds the budget, at full history’s cached fraction"
        />
        <Figure
          name="Cost, true prefix"
          value={`${dollars(sum((t) => t.cost.prefix))} of ${dollars(sum((t) => t.full_cost.prefix))}`}
          hint="All sessions; tokens cached that really repeat the previous prompt’s beginning"
        />
        <Figure name="Recall" value={events ? percent(sum((t) => t.seen) / events) : "–"} hint={plural(events, "use")} />
      </dl>
      <div class="scroll" tabIndex={0} role="region" aria-label="Savings by session">
        <table>
          <thead>
            <tr>
              <th scope="col">Session</th>
              <th scope="col">Prompt tokens, shown of full</th>
              <th scope="col" class="num">
                Saved
              </th>
              <th scope="col" class="num">
                Paper’s formula
              </th>
              <th scope="col" class="num">
                True prefix
              </th>
              <th scope="col" class="num">
                Recall
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ view, found }) => {
              const totals = found!.totals;
              return (
                <tr key={view.session}>
                  <th scope="row">
                    <a href={address(view.session, "savings")}>{view.session}</a>
                  </th>
                  <td class="bars" title={`${number(totals.prompt)} of ${number(totals.full)} tokens`}>
                    <span class="bar full" style={{ width: `${(100 * totals.full) / most}%` }}>
                      <span class="bar shown" style={{ width: `${(100 * totals.prompt) / Math.max(1, totals.full)}%` }} />
                    </span>
                  </td>
                  <td class="num">
                    {short(saved(totals))} <small>{percent(totals.full ? saved(totals) / totals.full : 0)}</small>
                  </td>
                  <td class="num">
                    {totals.over_budget ? `${dollars(totals.cost.paper)} of ${dollars(totals.full_cost.paper)}` : "–"}
                  </td>
                  <td class="num">
                    {dollars(totals.cost.prefix)} of {dollars(totals.full_cost.prefix)}
                  </td>
                  <td class="num">{totals.recall === null ? "–" : percent(totals.recall)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

const saved = (totals: PolicyView): number => totals.full - totals.prompt;
