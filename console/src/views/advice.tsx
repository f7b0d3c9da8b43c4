// Which budget and policy: the server's advice on this session, and what every policy costs for what it shows.
import { useEffect, useState } from "preact/hooks";
import { ask, isAbort } from "../api";
import { dollars, number, percent, plural } from "../format";
import { Copy } from "../parts/copy";
import { Curve } from "../parts/curve";
import { linesOf } from "../parts/lines";
import { Failure, Loading } from "../parts/notes";
import { num, Table, text } from "../parts/table";
import type { SessionData } from "../session";
import type { AdviceView, AdvisedView } from "../types";

const CALLS = 60;
const BUDGETS = [3000, 6000, 12_000, 24_000, 48_000, 96_000];
/** Policies that others come down to, or that no budget binds. */
const LEFT_OUT = ["full"];

interface State {
  advice: AdviceView | null;
  options: AdvisedView[];
  at: string;
  error: unknown;
}

/** The advice first, then policy after policy. */
function useAdvice(data: SessionData, started: boolean): State {
  const [state, setState] = useState<State>({ advice: null, options: [], at: "", error: null });
  useEffect(() => {
    if (!started) return;
    const stop = new AbortController();
    const fields = { session: data.key, branch: data.branch, calls: CALLS };
    const load = async () => {
      setState((now) => ({ ...now, at: "advice" }));
      const advice = await ask<AdviceView>("advise", fields, stop.signal);
      setState((now) => ({ ...now, advice }));
      for (const policy of data.policies.filter((name) => !LEFT_OUT.includes(name))) {
        setState((now) => ({ ...now, at: policy }));
        const { options } = await ask<AdviceView>("advise", { ...fields, policies: [policy], budgets: BUDGETS }, stop.signal);
        setState((now) => ({ ...now, options: [...now.options, ...options] }));
      }
      setState((now) => ({ ...now, at: "" }));
    };
    load().catch((error) => !isAbort(error) && setState((now) => ({ ...now, error, at: "" })));
    return () => stop.abort();
  }, [started]);
  return state;
}

export function Advice({ data }: { data: SessionData }) {
  const [started, setStarted] = useState(false);
  const { advice, options, at, error } = useAdvice(data, started);
  const calls = Math.min(CALLS, data.last);
  return (
    <section class="advice">
      <h2>Which budget and policy?</h2>
      <p class="hint">
        The first {plural(calls, "call")} replayed with an agent that fetches again what it needs and does not see, billed by this session’s
        model and its provider’s cache rule.
      </p>
      {!started && <button onClick={() => setStarted(true)}>Work it out</button>}
      {error !== null && <Failure error={error} />}
      {advice && (
        <p class="verdict" role="status">
          {advice.sentence} {advice.best && <Copy text={settingOf(advice.best)} title="Copy the setting" />}
        </p>
      )}
      <Curve lines={linesOf(options)} />
      {at && <Loading what={at === "advice" ? "Replaying…" : `Replaying under ${at}…`} />}
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
            <td class="num">{number(option.budget)}</td>
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
