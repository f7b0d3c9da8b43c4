// What rendering saved over all sessions, as it was counted when the calls were made.
import { useState } from "preact/hooks";
import { number, percent, plural, short } from "../format";
import { useAsk } from "../parts/load";
import { Empty, Failure, Figure, IN_VIEW, Loading } from "../parts/notes";
import { COUNTED, ownPrices, Prices } from "../parts/prices";
import { Cost, Signed } from "../parts/signed";
import { num, Table, text } from "../parts/table";
import { GROUPS, type Group, grouped, saved, type Total, total } from "../parts/saved";
import type { TotalSavingsView } from "../types";
import { Advice } from "./advice";

export function Overall() {
  const [by, setBy] = useState<Group>("day");
  const [prices, setPrices] = useState(ownPrices());
  const found = useAsk<TotalSavingsView>("total_savings", { prices });
  if (found.error !== null) return <Failure error={found.error} again={found.again} />;
  if (found.value === null) return <Loading what="Adding up…" />;
  const { sessions, counted, rows } = found.value;
  if (rows.length === 0) {
    return (
      <Empty title="No call has been counted yet">
        <p>Calls count once their answer or its bill is recorded: {plural(sessions, "session")} so far.</p>
      </Empty>
    );
  }
  const all = total("All", rows);
  const groups = grouped(rows, by);
  return (
    <section class="page">
      <div class="heading">
        <h1>Savings over all sessions</h1>
        <span class="spring" />
        <label>
          By{" "}
          <select value={by} onChange={(event) => setBy(event.currentTarget.value as Group)}>
            {GROUPS.map((name) => (
              <option key={name} value={name}>
                {NAMES[name]}
              </option>
            ))}
          </select>
        </label>
      </div>
      <dl class="figures">
        <Figure name="Tokens saved" value={<Signed value={saved(all)}>{short(saved(all))}</Signed>} hint={`${number(saved(all))} prompt tokens`} />
        <Figure name="Share of whole histories saved" value={<Share sums={all} />} />
        <Figure name="Cost, counted" value={<Cost cost={all.cost} full={all.full_cost} />} hint={COUNTED} />
        {all.billed > 0 && (
          <Figure
            name={`Billed, ${plural(all.billed, "call")}`}
            value={<Cost cost={all.billed_cost} full={all.whole_cost} />}
            hint="The provider’s own counts, beside what the whole history would have been, about"
          />
        )}
        <Figure name="In view, so far" value={all.drawn ? percent(all.seen / all.drawn) : "–"} hint={`${IN_VIEW}: ${number(all.seen)} of ${number(all.drawn)}`} />
      </dl>
      <p class="hint">
        Counted when the calls of {counted === sessions ? plural(sessions, "session") : `${number(counted)} of ${number(sessions)} sessions`} were made.
        {counted < sessions && " The others were only recorded, or are older than that: their own pages recompute them."}
      </p>
      <Prices unpriced={all.unpriced} pricedAs={all.pricedAs} onChange={setPrices} />
      <Table label={`Savings by ${NAMES[by].toLowerCase()}`} kind={by} columns={[text(NAMES[by]), ...SUMS]} foot={<Line sums={all} />}>
        {groups.map((sums) => (
          <Line key={sums.name} sums={sums} />
        ))}
      </Table>
      <Advice data={null} />
    </section>
  );
}

const SUMS = [
  num("Calls", "Model calls whose answer was recorded"),
  num("Whole", "Prompt tokens with the whole history: what would have been sent otherwise, at most the model’s window"),
  num("Sent", "Prompt tokens that went to the model. “Whole” and “held out” calls were sent with everything, so they saved nothing"),
  num("Saved"),
  num("Cost", COUNTED),
  num(
    "Billed",
    "By the provider’s own counts, for calls through the proxy. What the whole history would have been is an estimate: the same count and the tokens left out, cached as far as the whole prompt before was.",
  ),
  num("In view", `${IN_VIEW}. A running session may still use what it was not shown`),
];

function Line({ sums }: { sums: Total }) {
  return (
    <tr>
      <th scope="row">{sums.name || "unknown"}</th>
      <td class="num">{number(sums.calls)}</td>
      <td class="num" title={sums.full > sums.capped ? `${number(sums.full)} tokens without the model’s window` : undefined}>
        {short(sums.capped)}
      </td>
      <td class="num">{short(sums.prompt)}</td>
      <td class="num">
        <Signed value={saved(sums)}>{short(saved(sums))}</Signed>{" "}
        <small>
          <Share sums={sums} />
        </small>
      </td>
      <td class="num">
        <Cost cost={sums.cost} full={sums.full_cost} />
        {sums.cost !== null && sums.unpriced > 0 && <small> {plural(sums.unpriced, "call")} without a price</small>}
      </td>
      <td class="num">{sums.billed === 0 ? "–" : <Cost cost={sums.billed_cost} full={sums.whole_cost} />}</td>
      <td class="num">{sums.drawn ? percent(sums.seen / sums.drawn) : "–"}</td>
    </tr>
  );
}

const Share = ({ sums }: { sums: Total }) => <>{percent(sums.capped ? saved(sums) / sums.capped : 0)}</>;

const NAMES: Record<Group, string> = { day: "Day (UTC)", model: "Model", "day and model": "Day and model", client: "Client", policy: "Policy", sent: "Sent" };
