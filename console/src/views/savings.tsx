// What rendering saved in this session, and what other policies would have.
import { useState } from "preact/hooks";
import { dollars, number, percent, short } from "../format";
import { Chart, type Series } from "../parts/chart";
import { useWhole } from "../parts/load";
import { Failure, Figure, Loading } from "../parts/notes";
import { COUNTED, ownPrices, Prices } from "../parts/prices";
import { Cost, Signed } from "../parts/signed";
import { type Column, num, Table, text } from "../parts/table";
import type { SessionData } from "../session";
import type { CompareView, PolicyView, SavingsView } from "../types";
import { Advice } from "./advice";

export function Savings({ data }: { data: SessionData }) {
  const own = useWhole<SavingsView>("savings", { ...data.line, prices: ownPrices() }, data.last);
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
  const recall = events.map((all, index) => (all ? seen[index] / all : null));
  return (
    <div class="savings">
      <dl class="panel figures">
        <Figure
          name="Prompt tokens saved"
          value={<Signed value={saved}>{`${short(saved)}, ${percent(totals.full ? saved / totals.full : 0)}`}</Signed>}
          hint={`${number(saved)} of the ${number(totals.full)} of whole histories`}
        />
        <Figure name="Cost, counted" value={<Cost cost={totals.cost} full={totals.full_cost} />} hint={COUNTED} />
        <Figure
          name="Recall so far"
          value={totals.recall === null ? "–" : percent(totals.recall)}
          hint={`${totals.seen} of ${totals.events} later-used results were in view, by the paper’s measure`}
        />
      </dl>
      {!complete && <Loading what={`${number(totals.turns)} of ${number(totals.last)} turns recomputed`} />}
      <div class="charts">
        <Chart label="Prompt tokens of each call" format={short} series={both(series.full, series.prompt)} />
        {totals.cost !== null && (
          <Chart label="Cost so far, counted" format={dollars} series={both(series.full_cost, series.cost)} />
        )}
        <Chart
          label="Recall so far"
          format={percent}
          most={1}
          series={[{ name: "later-used results in view", colour: "var(--complete)", values: recall }]}
        />
      </div>
      <Prices unpriced={totals.unpriced} pricedAs={Object.entries(totals.priced_as)} />
      <Advice data={data} />
      <Compare data={data} />
    </div>
  );
}

const both = (full: number[], shown: number[]): Series[] => [
  { name: "full history", colour: "var(--muted)", values: full },
  { name: "shown", colour: "var(--complete)", values: shown },
];

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

function Comparison({ data }: { data: SessionData }) {
  const found = useWhole<CompareView>("compare_policies", { ...data.line, prices: ownPrices() }, data.last);
  if (found.error !== null) return <Failure error={found.error} />;
  if (!found.value) return <Loading what="Comparing policies…" />;
  const { policies, complete } = found.value;
  const best = (of: (view: PolicyView) => number | null, most: boolean) => {
    const values = policies.filter((view) => view.policy !== "full").map(of).filter((value) => value !== null);
    return complete ? Math[most ? "max" : "min"](...values) : null;
  };
  const recall = best((view) => view.recall, true);
  const least = best((view) => view.cost, false);
  const columns: Column<PolicyView>[] = [
    text("Policy", ({ policy }) => (
      <>
        {policy} {policy === data.policy && <span class="tag">in use</span>}
        {policy === "full" && <span class="tag">nothing left out</span>}
      </>
    )),
    num("Recall", (view) => <>{view.recall === null ? "–" : percent(view.recall)} <small>{view.events > 0 && `${view.seen}/${view.events}`}</small></>, {
      kindOf: (view) => (view.policy !== "full" && view.recall !== null && view.recall === recall ? "num best" : "num"),
    }),
    num("Prompt tokens", ({ prompt, full }) => <>{short(prompt)} <small>{percent(full ? prompt / full : 0)}</small></>),
    num("Cached", ({ prompt, cached }) => percent(prompt ? cached / prompt : 0)),
    num("Cost, counted", ({ cost }) => (cost === null ? "no price" : dollars(cost)), {
      hint: COUNTED,
      kindOf: ({ cost }) => (cost !== null && cost === least ? "num best" : "num"),
    }),
  ];
  return (
    <>
      {!complete && <Loading what={`${number(Math.min(...policies.map((view) => view.turns)))} of ${number(data.last)} turns`} />}
      <Table
        label="Policies compared"
        columns={columns}
        rows={policies}
        keyOf={({ policy }) => policy}
        kindOf={({ policy }) => (policy === data.policy ? "current" : "")}
      />
    </>
  );
}
