// Which budget and policy: the server's advice on a session or on all, and what every policy costs for what it shows.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { askWhole, isAbort, visited } from "../api";
import { budgetOf, dollars, number, percent, plural } from "../format";
import { Copy } from "../parts/copy";
import { Curve } from "../parts/curve";
import { linesOf } from "../parts/lines";
import { Failure, Loading } from "../parts/notes";
import { num, Table, text } from "../parts/table";
import type { SessionData } from "../session";
import type { AdviceView, AdvisedView, AllAdviceView } from "../types";

const CALLS = 60;
const BUDGETS = [3000, 6000, 12_000, 24_000, 48_000, 96_000];
/** Policies that others come down to, or that no budget binds. */
const LEFT_OUT = ["full"];

/** What advice is asked for: a session by its walker's fields, or all. */
type Of = { session: string; branch: number | null } | "all";
type View = AdviceView & Partial<AllAdviceView>;

interface State {
  advice: View | null;
  options: AdvisedView[];
  at: string;
  error: unknown;
}

const START: State = { advice: null, options: [], at: "", error: null };

/** The advice first, then policy after policy; where no policy is named, what the advice was made from. */
function useAdvice(of: Of, policies: string[], started: boolean): State {
  const [state, setState] = useState<State>(START);
  const subject = JSON.stringify(of);
  useEffect(() => {
    if (!started) return;
    const stop = new AbortController();
    const set = (change: Partial<State>) => setState((now) => ({ ...now, ...change }));
    const [walker, named] = of === "all" ? ["advise_all", {}] : ["advise", of];
    const whole = (fields: object, tell: (view: View) => void) =>
      askWhole<View>(walker, { ...named, ...fields, calls: CALLS }, stop.signal, tell);
    const load = async () => {
      setState({ ...START, at: "advice" });
      const { options: weighed } = await whole({}, (advice) => set({ advice }));
      let options: AdvisedView[] = [];
      if (policies.length === 0) set({ options: weighed });
      for (const policy of policies.filter((name) => !LEFT_OUT.includes(name))) {
        set({ at: policy });
        const known = options;
        const fields = { policies: [policy], budgets: BUDGETS };
        const { options: made } = await whole(fields, (view) => set({ options: [...known, ...view.options] }));
        options = [...known, ...made];
      }
      set({ at: "" });
    };
    load().catch((error) => !isAbort(error) && set({ error, at: "" }));
    return () => stop.abort();
  }, [started, subject]);
  return state;
}

export function Advice({ data }: { data: SessionData }) {
  const here = { session: data.key, branch: data.branch };
  const [all, setAll] = useState(false);
  return (
    <Weighed of={all ? "all" : here} policies={data.policies} calls={Math.min(CALLS, data.last)}>
      {visited() === null && (
        <span class="group" role="group" aria-label="Which sessions">
          <button aria-pressed={!all} onClick={() => setAll(false)}>
            this session
          </button>
          <button aria-pressed={all} onClick={() => setAll(true)}>
            all sessions
          </button>
        </span>
      )}
    </Weighed>
  );
}

interface WeighedProps {
  of: Of;
  policies: string[];
  calls?: number;
  children?: ComponentChildren;
}

/** The question, and its answer once it is wanted: it takes the server seconds to minutes. */
export function Weighed({ of, policies, calls = CALLS, children }: WeighedProps) {
  const [started, setStarted] = useState(false);
  const { advice, options, at, error } = useAdvice(of, policies, started);
  const whose = of === "all" ? `The first ${CALLS} calls of each of the newest sessions` : `The first ${plural(calls, "call")}`;
  const model = of === "all" ? "each session’s" : "this session’s";
  const far = advice?.complete === false ? ` ${number(advice.weighed!)} of ${plural(advice.sessions!, "session")} so far.` : "";
  return (
    <section class="advice">
      <div class="toolbar">
        <h2>Recommend a setting</h2>
        {children}
      </div>
      <p class="hint">
        {whose}, replayed with an agent that fetches again what it needs and does not see, billed by {model} model and its provider’s cache
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
          {of === "all" && advice.complete && (
            <small>
              From {plural(advice.replayed!, "call")} of {plural(advice.sessions!, "session")}.
            </small>
          )}
        </p>
      )}
      <Curve lines={linesOf(options)} />
      {at && <Loading what={(at === "advice" ? "Replaying…" : `Replaying under ${at}…`) + far} />}
      {options.length > 0 && <Options options={options} />}
    </section>
  );
}

const COLUMNS = [text("Policy"), num("Budget"), num("Of the bill"), num("Dollars"), num("Steps that had all"), text("Setting")];

function Options({ options }: { options: AdvisedView[] }) {
  return (
    <details>
      <summary>The figures</summary>
      <Table label="Policies and budgets" columns={COLUMNS}>
        {options.map((option) => (
          <tr key={`${option.policy}@${option.budget}`}>
            <th scope="row">{option.policy}</th>
            <td class="num">{budgetOf(option.budget, number)}</td>
            <td class="num">{option.cost === null ? "–" : percent(option.cost)}</td>
            <td class="num">{dollars(option.dollars)}</td>
            <td class="num">{option.hidden === null ? "–" : percent(1 - option.hidden)}</td>
            <td>
              <Copy text={settingOf(option)} />
            </td>
          </tr>
        ))}
      </Table>
    </details>
  );
}

/** As the proxy and `wrap` take it from the environment. */
const settingOf = ({ policy, budget }: AdvisedView): string => `CONTEXTRENDER_POLICY=${policy} CONTEXTRENDER_BUDGET=${budget}`;
