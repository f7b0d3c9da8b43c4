// Which budget and policy: the server's advice on a session or on all, and what every policy costs for what it shows.
import { useState } from "preact/hooks";
import { askWhole } from "../api";
import { budgetOf, dollars, number, percent, plural } from "../format";
import { Copy } from "../parts/copy";
import { Curve } from "../parts/curve";
import { useTask } from "../parts/load";
import { Failure, Loading } from "../parts/notes";
import { type Column, num, Table, text } from "../parts/table";
import type { SessionData } from "../session";
import type { AdviceView, AdvisedView, AllAdviceView } from "../types";

const CALLS = 60;
const BUDGETS = [3000, 6000, 12_000, 24_000, 48_000, 96_000];

type View = AdviceView & Partial<AllAdviceView>;

interface Weighed {
  advice: View | null;
  options: AdvisedView[];
  /** What is being replayed. */
  at: string;
}

/** Asks for the advice, then weighs policy after policy of a session; of all, what the advice was made from. */
async function weigh(data: SessionData | null, tell: (weighed: Weighed) => void, signal: AbortSignal): Promise<void> {
  let now: Weighed = { advice: null, options: [], at: "Replaying…" };
  const set = (change: Partial<Weighed>) => tell((now = { ...now, ...change }));
  const [walker, of] = data ? ["advise", data.line] : ["advise_all", {}];
  const whole = (fields: object, told: (view: View) => void) => askWhole<View>(walker, { ...of, ...fields, calls: CALLS }, signal, told);
  set({});
  await whole({}, (advice) => set({ advice, options: data ? [] : advice.options }));
  // `full` is what the others are weighed against.
  for (const policy of data?.policies.filter((name) => name !== "full") ?? []) {
    set({ at: `Replaying under ${policy}…` });
    const known = now.options;
    await whole({ policies: [policy], budgets: BUDGETS }, ({ options }) => set({ options: [...known, ...options] }));
  }
  set({ at: "" });
}

/** The question about a session, or about all, and its answer once it is wanted: it takes the server seconds to minutes. */
export function Advice({ data }: { data: SessionData | null }) {
  const [started, setStarted] = useState(false);
  const { value, error } = useTask<Weighed | null>(null, async (tell, signal) => started && weigh(data, tell, signal), [started]);
  const { advice, options, at } = value ?? { advice: null, options: [], at: "" };
  const calls = data ? `The first ${plural(Math.min(CALLS, data.last), "call")}` : `The first ${CALLS} calls of each of the newest sessions`;
  const model = data ? "this session’s" : "each session’s";
  const far = advice?.complete === false ? ` ${number(advice.weighed!)} of ${plural(advice.sessions!, "session")} so far.` : "";
  return (
    <section class="advice">
      <h2>Recommend a setting</h2>
      <p class="hint">
        {calls}, replayed with an agent that fetches again what it needs and does not see, billed by {model} model and its provider’s cache
        rule.
      </p>
      {!started && (
        <button class="primary" onClick={() => setStarted(true)}>
          Recommend
        </button>
      )}
      {error !== null && <Failure error={error} />}
      {advice?.sentence && (
        <p class="verdict" role="status">
          {advice.sentence} {advice.best && <Copy text={settingOf(advice.best)} title="Copy the setting" />}
          {!data && advice.complete && (
            <small>
              From {plural(advice.replayed!, "call")} of {plural(advice.sessions!, "session")}.
            </small>
          )}
        </p>
      )}
      <Curve options={options} />
      {at && error === null && <Loading what={at + far} />}
      {options.length > 0 && <Table label="Policies and budgets" columns={COLUMNS} rows={options} keyOf={settingOf} />}
    </section>
  );
}

const COLUMNS: Column<AdvisedView>[] = [
  text("Policy", ({ policy }) => policy),
  num("Budget", ({ budget }) => budgetOf(budget, number)),
  num("Of the bill", ({ cost }) => (cost === null ? "–" : percent(cost))),
  num("Dollars", (option) => dollars(option.dollars)),
  num("Steps that had all", ({ hidden }) => (hidden === null ? "–" : percent(1 - hidden))),
  text("Setting", (option) => <Copy text={settingOf(option)} />),
];

/** As the proxy and `wrap` take it from the environment. */
const settingOf = ({ policy, budget }: AdvisedView): string => `CONTEXTRENDER_POLICY=${policy} CONTEXTRENDER_BUDGET=${budget}`;
