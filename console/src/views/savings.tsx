// What rendering saved in this session, and what other policies would have.
import { useEffect, useState } from "preact/hooks";
import { ask, isAbort } from "../api";
import { dollars, number, percent, short } from "../format";
import { Chart } from "../parts/chart";
import { Failure, Figure, Loading } from "../parts/notes";
import { Cost, Signed } from "../parts/signed";
import { num, Table, text } from "../parts/table";
import type { SessionData } from "../session";
import type { CompareView, PolicyView, SavingsView } from "../types";
import { Advice } from "./advice";
import type { ViewProps } from "./props";

/** Asks again while the answer is not complete, and whenever `stamp` changes. */
function useWhole<T extends { complete: boolean }>(walker: string, fields: object, stamp: number): { value: T | null; error: unknown } {
  const [state, setState] = useState<{ value: T | null; error: unknown }>({ value: null, error: null });
  useEffect(() => {
    const stop = new AbortController();
    const load = async () => {
      for (;;) {
        const value = await ask<T>(walker, fields, stop.signal);
        setState({ value, error: null });
        if (value.complete) return;
      }
    };
    load().catch((error) => !isAbort(error) && setState((now) => ({ ...now, error })));
    return () => stop.abort();
  }, [walker, JSON.stringify(fields), stamp]);
  return state;
}

export function Savings({ place, data }: ViewProps) {
  const { session, branch } = place;
  const own = useWhole<SavingsView>("savings", { session, branch }, data.last);
  if (own.error !== null) return <Failure error={own.error} />;
  if (!own.value) return <Loading what="Adding up…" />;
  const { totals, columns, complete } = own.value;
  const series = columns!;
  const saved = totals.full - totals.prompt;
  const growing = (values: number[]) => {
    let sum = 0;
    return values.map((value) => (sum += value));
  };
  const [events, seen] = [growing(series.events), growing(series.seen)];
  return (
    <div class="savings">
      <dl class="figures">
        <Figure
          name="Prompt tokens saved"
          value={<Signed value={saved}>{`${short(saved)}, ${percent(totals.full ? saved / totals.full : 0)}`}</Signed>}
          hint={`${number(saved)} of the ${number(totals.full)} of whole histories`}
        />
        <Figure
          name="Cost, paper’s formula"
          value={<Cost cost={totals.cost.paper} full={totals.full_cost.paper} />}
          hint={totals.over_budget ? "Full history’s cached fraction for both" : "The whole history fits the budget; the formula is for runs that exceed it"}
        />
        <Figure
          name="Cost, true prefix"
          value={<Cost cost={totals.cost.prefix} full={totals.full_cost.prefix} />}
          hint="Cached is what a prompt begins with of the prompt before it: what is shown changes, so less of it is cached"
        />
        <Figure
          name="Recall so far"
          value={totals.recall === null ? "–" : percent(totals.recall)}
          hint={`${totals.seen} of ${totals.events} later-used results were in view, by the paper’s measure`}
        />
      </dl>
      {!complete && <Loading what={`${number(totals.turns)} of ${number(totals.last)} turns recomputed`} />}
      <div class="charts">
        <Chart
          label="Prompt tokens of each call"
          format={short}
          series={[
            { name: "full history", values: series.full, colour: "muted" },
            { name: "shown", values: series.prompt, colour: "complete" },
          ]}
        />
        <Chart
          label="Cost so far, paper’s formula"
          format={dollars}
          series={[
            { name: "full history", values: series.paper_full, colour: "muted" },
            { name: "shown", values: series.paper, colour: "complete" },
          ]}
        />
        <Chart
          label="Cost so far, true prefix"
          format={dollars}
          series={[
            { name: "full history", values: series.prefix_full, colour: "muted" },
            { name: "shown", values: series.prefix, colour: "complete" },
          ]}
        />
        <Chart
          label="Recall so far"
          format={percent}
          most={1.02}
          series={[{ name: "later-used results in view", values: events.map((all, index) => (all ? seen[index] / all : null)), colour: "complete" }]}
        />
      </div>
      <Advice data={data} />
      <Compare data={data} />
    </div>
  );
}

function Compare({ data }: { data: SessionData }) {
  const [started, setStarted] = useState(data.last <= 200);
  return (
    <section>
      <h2>Policies on this session</h2>
      <p class="hint">
        The same recorded history under every policy, with the session’s own budget: a replay, so the agent does not react to what was hidden.
      </p>
      {started ? <Comparison data={data} /> : <button onClick={() => setStarted(true)}>Compare policies over {number(data.last)} turns</button>}
    </section>
  );
}

const COLUMNS = [
  text("Policy"),
  num("Recall"),
  num("Prompt tokens"),
  num("Cached"),
  num("Paper’s formula"),
  num("True prefix"),
];

function Comparison({ data }: { data: SessionData }) {
  const found = useWhole<CompareView>("compare_policies", { session: data.key, branch: data.branch }, data.last);
  if (found.error !== null) return <Failure error={found.error} />;
  if (!found.value) return <Loading what="Comparing policies…" />;
  const { policies, complete } = found.value;
  const best = (of: (view: PolicyView) => number | null, most: boolean) => {
    const values = policies.filter((view) => view.policy !== "full").map(of).filter((value) => value !== null);
    return complete ? Math[most ? "max" : "min"](...values) : null;
  };
  const recall = best((view) => view.recall, true);
  const paper = best((view) => view.cost.paper, false);
  const prefix = best((view) => view.cost.prefix, false);
  return (
    <>
      {!complete && <Loading what={`${number(Math.min(...policies.map((view) => view.turns)))} of ${number(data.last)} turns`} />}
      <Table label="Policies compared" columns={COLUMNS}>
        {policies.map((view) => (
          <tr key={view.policy} class={view.policy === data.policy ? "current" : ""}>
            <th scope="row">
              {view.policy} {view.policy === data.policy && <span class="tag">in use</span>}
              {view.policy === "full" && <span class="tag">nothing left out</span>}
            </th>
            <td class={view.policy !== "full" && view.recall !== null && view.recall === recall ? "num best" : "num"}>
              {view.recall === null ? "–" : percent(view.recall)} <small>{view.events > 0 && `${view.seen}/${view.events}`}</small>
            </td>
            <td class="num">
              {short(view.prompt)} <small>{percent(view.full ? view.prompt / view.full : 0)}</small>
            </td>
            <td class="num">{percent(view.prompt ? view.cached / view.prompt : 0)}</td>
            <td class={view.cost.paper === paper ? "num best" : "num"}>{dollars(view.cost.paper)}</td>
            <td class={view.cost.prefix === prefix ? "num best" : "num"}>{dollars(view.cost.prefix)}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}
