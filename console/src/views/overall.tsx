// The savings of all sessions, counted when the calls were made.
import { useState } from "preact/hooks";
import { number, percent, plural, short } from "../format";
import { groupBy } from "../grouping";
import { Choice } from "../parts/controls";
import { useReport } from "../parts/request";
import { Empty, Failure, Figure, Loading, STEPS } from "../parts/notes";
import { COSTS, ownPrices, Prices } from "../parts/prices";
import { Cost, Signed } from "../parts/cost";
import { type Column, num, Table, text } from "../parts/table";
import { headlineOf, headlineShare } from "../setting";
import type { SavedRow, TotalSavingsView } from "../types";
import { savingOf } from "./savings";

const GROUPS = { day: "Day (UTC)", model: "Model", "day and model": "Day and model", client: "Client", policy: "Policy", delivery: "Delivery" };
type Group = keyof typeof GROUPS;

export function Overall() {
  const [by, setBy] = useState<Group>("day");
  const savings = useReport<TotalSavingsView>("total_savings", { prices: ownPrices() });
  if (savings.error !== null) return <Failure error={savings.error} again={savings.again} />;
  if (savings.value === null) return <Loading what="Adding up…" />;
  const { sessions, sessions_counted: counted, rows } = savings.value;
  if (rows.length === 0) {
    return (
      <Empty title="No call has been counted yet">
        <p>Calls count once their answer or its bill is recorded: {plural(sessions, "session")} so far.</p>
      </Empty>
    );
  }
  const all = total("All", rows);
  return (
    <section class="page">
      <div class="toolbar">
        <h1>Savings over all sessions</h1>
        <span class="spring" />
        <Choice label="By" value={by} options={Object.keys(GROUPS) as Group[]} names={GROUPS} onChoose={setBy} />
      </div>
      <p class="verdict">
        {savingOf("All sessions", { ...all, full: all.full_capped })} {headlineOf(all)}
      </p>
      <dl class="panel figures">
        <Figure name="Steps with all values" value={headlineShare(all)} hint={headlineOf(all)} />
        <Figure name="Tokens saved" value={<Signed value={saved(all)}>{short(saved(all))}</Signed>} hint={`${number(saved(all))} prompt tokens`} />
        <Figure name="Share of full histories saved" value={shareOf(all)} />
        <Figure name={all.is_estimate ? "Cost, estimated" : "Cost"} value={<Cost cost={all.cost} full={all.full_cost} />} hint={COSTS} />
      </dl>
      <p class="hint">
        Counted when each call was made, in {counted === sessions ? plural(sessions, "session") : `${number(counted)} of ${number(sessions)} sessions`}.
        {counted < sessions && " The others were only recorded; their own pages recompute their calls."}
      </p>
      <Prices unpriced={all.unpriced} pricedAs={all.pricedAs} />
      <Table
        label={`Savings by ${GROUPS[by].toLowerCase()}`}
        kind={by}
        columns={[text<Total>(GROUPS[by], ({ name }) => name || "unknown"), ...SUMS]}
        rows={grouped(rows, by)}
        keyOf={({ name }) => name}
        foot={all}
      />
    </section>
  );
}

const SUMS: Column<Total>[] = [
  num("Calls", (sums) => number(sums.calls), { hint: "Model calls whose answer was recorded" }),
  num("Full", (sums) => short(sums.full_capped), {
    hint: "Prompt tokens with the full history, at most the model’s window",
    title: ({ full, full_capped: capped }) => (full > capped ? `${number(full)} tokens without the model’s window` : undefined),
  }),
  num("Sent", (sums) => short(sums.prompt), {
    hint: "Prompt tokens that were sent. “full” and “holdout” calls sent the full history, so they saved nothing",
  }),
  num("Saved", (sums) => (
    <>
      <Signed value={saved(sums)}>{short(saved(sums))}</Signed>{" "}
      <small>{shareOf(sums)}</small>
    </>
  )),
  num("Cost", ({ cost, full_cost, unpriced, is_estimate }) => (
    <>
      {is_estimate && "~"}
      <Cost cost={cost} full={full_cost} />
      {cost !== null && unpriced > 0 && <small> {plural(unpriced, "call")} without a price</small>}
    </>
  ), { hint: COSTS }),
  num("Steps with all values", headlineShare, { hint: STEPS, title: headlineOf }),
];

const shareOf = (sums: Total): string => percent(sums.full_capped ? saved(sums) / sums.full_capped : 0);

const SUMMED = ["calls", "full", "full_capped", "prompt", "steps", "steps_with_misses"] as const;

/** Sums of rows. `unpriced` is the number of calls without a price, which the dollars do not include. */
interface Total extends Record<(typeof SUMMED)[number], number> {
  name: string;
  unpriced: number;
  /** Null if no call has a price. */
  cost: number | null;
  full_cost: number | null;
  is_estimate: boolean;
  /** The models that are priced as another, with that model. */
  pricedAs: [string, string][];
}

export function total(name: string, rows: SavedRow[]): Total {
  const sum = (of: (row: SavedRow) => number | null) => rows.reduce((all, row) => all + (of(row) ?? 0), 0);
  const sums = Object.fromEntries(SUMMED.map((field) => [field, sum((row) => row[field])]));
  const priced = rows.some((row) => row.cost !== null);
  return {
    ...(sums as Record<(typeof SUMMED)[number], number>),
    name,
    unpriced: sum((row) => (row.cost === null ? row.calls : 0)),
    cost: priced ? sum((row) => row.cost) : null,
    full_cost: priced ? sum((row) => row.full_cost) : null,
    is_estimate: rows.some((row) => row.is_estimate),
    pricedAs: [...new Map(rows.filter((row) => row.price_source).map((row) => [row.model, row.price_source]))],
  };
}

/** Return a total for each value of a column: days newest first, others by savings. */
export function grouped(rows: SavedRow[], by: Group): Total[] {
  const nameOf = (row: SavedRow) => (by === "day and model" ? `${row.day} ${row.model || "unknown"}` : row[by]);
  const totals = [...groupBy(rows, nameOf)].map(([name, some]) => total(name, some));
  if (by.startsWith("day")) return totals.sort((a, b) => (a.name < b.name ? 1 : -1));
  return totals.sort((a, b) => saved(b) - saved(a));
}

export const saved = (sums: Total): number => sums.full_capped - sums.prompt;
