// Which setting the session should have had: one curve, one recommendation, and the session under a chosen one.
import { dollars, number, percent, plural, short } from "../format";
import { Copy } from "../parts/copy";
import { Curve } from "../parts/curve";
import { Failure, Loading, RECALL } from "../parts/notes";
import { ESTIMATED, ownPrices, Prices } from "../parts/prices";
import { useCompleteReport } from "../parts/request";
import { type Column, num, Table, text } from "../parts/table";
import { address, type Place } from "../route";
import type { SessionData } from "../session";
import { configurationOf, headlineOf, headlineShare, isSame, nameOf, optionsOf, type Setting, sentenceOf, verdictOf } from "../setting";
import type { CompareView, PolicyView, SavingsView } from "../types";

interface Props {
  place: Place;
  /** The session as recorded, and under the setting in the address, if there is one. */
  own: SessionData;
  tried: SessionData | null;
}

/** Return the same place with a setting, or without one. */
function withSetting({ session, view, item, branch, options: { policy: _, budget: __, ...options } }: Place, setting: Setting | null): string {
  return address(session, view, item, branch, { ...options, ...(setting && optionsOf(setting)) });
}

/** The outcome of the chosen setting, above a view that shows it. */
export function Outcome({ place, own, tried }: Props) {
  const fields = { columns: false, prices: ownPrices() };
  const before = useCompleteReport<SavingsView>("savings", { ...own.branch, ...fields }, own.last);
  const after = useCompleteReport<SavingsView>("savings", { ...own.branch, ...tried?.setting, ...fields }, own.last);
  if (!tried) return null;
  const isReady = own.complete && tried.complete && before.value?.complete && after.value?.complete;
  const cost = (view: SavingsView | null) => view?.totals.cost ?? null;
  const more = cost(before.value) === null || cost(after.value) === null ? null : cost(after.value)! - cost(before.value)!;
  return (
    <div class="card outcome" role="status">
      <p>
        <strong>With {nameOf(tried)}:</strong>{" "}
        {tried.error ? tried.error.message : isReady ? sentenceOf(verdictOf(own, tried), more) : `replaying the session: ${number(tried.loaded)} of ${plural(tried.last, "turn")}…`}
      </p>
      <p class="row">
        <Copy text={configurationOf(tried)} title="Use this" kind="primary" />
        <code>{configurationOf(tried)}</code>
        <a href={withSetting(place, null)}>Show the session as it was</a>
      </p>
    </div>
  );
}

export function Settings({ place, own, tried }: Props) {
  const compared = useCompleteReport<CompareView>("compare_policies", { ...own.branch, prices: ownPrices() }, own.last);
  if (compared.error !== null) return <Failure error={compared.error} again={compared.again} />;
  if (!compared.value) return <Loading what="Replaying the session under other settings…" />;
  const { options, complete, turns, turn_count: last, summary: sentence } = compared.value;
  const here = { policy: own.policy, budget: own.budget };
  const shownSession = tried ?? own;
  const to = (setting: Setting) => withSetting(place, isSame(setting, here) ? null : setting);
  return (
    <section class="settings" aria-label="Settings">
      <h2>Which setting?</h2>
      {complete ? <p class="verdict" role="status">{sentence}</p> : <Loading what={`${number(turns)} of ${number(last)} turns replayed under ${options.length} settings`} />}
      <Curve options={options} own={here} chosen={shownSession} to={to} />
      <details>
        <summary>The figures as a table</summary>
        <Table
          label="Settings compared"
          columns={columnsOf(here, to)}
          rows={options}
          keyOf={configurationOf}
          kindOf={(option) => (isSame(option, shownSession) ? "current" : "")}
        />
        <p class="hint">
          The recorded history, replayed under each setting: the agent does not react to what is omitted. Dollars are for the tokens counted
          here.
        </p>
      </details>
      <Prices unpriced={Math.max(...options.map(({ calls_without_price: unpriced }) => unpriced), 0)} pricedAs={Object.entries(options[0]?.price_source ?? {})} />
    </section>
  );
}

const columnsOf = (current: Setting, to: (setting: Setting) => string): Column<PolicyView>[] => [
  text("Setting", (option) => (
    <>
      <a href={to(option)}>{nameOf(option)}</a> {isSame(option, current) && <span class="tag">in use</span>}
    </>
  )),
  num("Steps with all values", headlineShare, { title: headlineOf }),
  num("Misses", ({ misses }) => number(misses)),
  num("Cost", ({ cost }) => (cost === null ? "no price" : dollars(cost)), { hint: ESTIMATED }),
  num("Prompt tokens", ({ prompt, full }) => <>{short(prompt)} <small>{percent(full ? prompt / full : 0)}</small></>),
  num("From the cache", ({ prompt, cached }) => percent(prompt ? cached / prompt : 0)),
  num("Result recall", ({ recall }) => (recall === null ? "–" : percent(recall)), { hint: RECALL }),
];
