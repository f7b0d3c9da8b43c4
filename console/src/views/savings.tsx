// The cost of a session, and what rendering saved of it, call by call.
import { dollars, number, percent, short } from "../format";
import { Chart, type Series } from "../parts/chart";
import { Cost, Signed } from "../parts/cost";
import { Failure, Figure, Loading, RECALL } from "../parts/notes";
import { COSTS, ESTIMATED, ownPrices, Prices } from "../parts/prices";
import { useCompleteReport } from "../parts/request";
import type { SessionData } from "../session";
import { headlineOf } from "../setting";
import type { PolicyView, SavingsView, SessionTotals } from "../types";

/** `counted` are the totals of the session as it was, if the data is of that session. */
export function Savings({ data, counted }: { data: SessionData; counted?: SessionTotals }) {
  const report = useCompleteReport<SavingsView>("savings", { ...data.branch, ...data.setting, prices: ownPrices() }, data.last);
  if (report.error !== null) return <Failure error={report.error} again={report.again} />;
  if (!report.value) return <Loading what="Adding up…" />;
  const { totals, columns, complete } = report.value;
  const { prompt, full, cost, full_cost } = columns!;
  const saved = totals.full - totals.prompt;
  const billed = counted && counted.cost !== null && !counted.is_estimate ? counted : null;
  return (
    <div class="savings">
      <p class="verdict" role="status">
        {savingOf("The session", billed ?? totals)} {headlineOf(totals)}
      </p>
      <dl class="panel figures">
        <Figure
          name="Prompt tokens saved"
          value={<Signed value={saved}>{`${short(saved)}, ${percent(totals.full ? saved / totals.full : 0)}`}</Signed>}
          hint={`${number(saved)} of the ${number(totals.full)} tokens of full histories`}
        />
        {billed ? (
          <Figure name="Cost" value={<Cost cost={billed.cost} full={billed.full_cost} />} hint={COSTS} />
        ) : (
          <Figure name="Cost, estimated" value={<Cost cost={totals.cost} full={totals.full_cost} />} hint={ESTIMATED} />
        )}
        <Figure
          name="Result recall"
          value={totals.recall === null ? "–" : percent(totals.recall)}
          hint={`${RECALL}: ${number(totals.recall_events_complete)} of ${number(totals.recall_events)}`}
        />
      </dl>
      {!complete && <Loading what={`${number(totals.turns)} of ${number(totals.turn_count)} turns recomputed`} />}
      <div class="charts">
        <Chart label="Prompt tokens of each call" format={short} series={both(full, prompt)} />
        {totals.cost !== null && <Chart label="Cost so far, estimated" format={dollars} series={both(full_cost, cost)} />}
      </div>
      <Prices unpriced={totals.calls_without_price} pricedAs={Object.entries(totals.price_source)} />
    </div>
  );
}

/** Return what was saved, in one sentence. */
export function savingOf(subject: string, { prompt, full, cost, full_cost }: Pick<PolicyView, "prompt" | "full" | "cost" | "full_cost">): string {
  const tokens = `${percent(full ? Math.abs(1 - prompt / full) : 0)} ${prompt > full ? "more" : "fewer"} prompt tokens than the full history`;
  if (cost === null || full_cost === null) return `${subject} sent ${tokens}.`;
  const saved = full_cost - cost;
  return `${subject} cost ${dollars(cost)}, ${dollars(Math.abs(saved))} ${saved < 0 ? "more" : "less"} than with the full history, with ${tokens}.`;
}

const both = (full: number[], prompt: number[]): Series[] => [
  { name: "full history", colour: "var(--muted)", values: full },
  { name: "prompt", colour: "var(--complete)", values: prompt },
];
