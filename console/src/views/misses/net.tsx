// What a remedy wins and loses over the whole session: uses in view, tokens and dollars.
import { useEffect, useState } from "preact/hooks";
import { askWhole, isAbort } from "../../api";
import { dollars, number, plural, signed } from "../../format";
import { useOwnPrices } from "../../parts/prices";
import type { CompareView, PolicyView } from "../../types";

export interface Setting {
  policy: string;
  /** The session's own where null. */
  budget: number | null;
  /** How many of the misses looked at it would have shown; null where that was not tried. */
  shown: number | null;
}

export interface Net extends Setting {
  uses: number;
  tokens: number;
  /** Null where no call has a price. */
  dollars: number | null;
}

/** A remedy beside how the session was, both over the same calls. */
export function netOf(remedy: Setting, own: PolicyView, other: PolicyView): Net {
  return { ...remedy, uses: other.seen - own.seen, tokens: other.prompt - own.prompt, dollars: own.cost === null || other.cost === null ? null : other.cost - own.cost };
}

/** Those that lose no uses, the one that wins most first; and those that lose some. */
export function sorted(nets: Net[]): { wins: Net[]; loses: Net[] } {
  const order = (a: Net, b: Net) => (b.shown ?? 0) + b.uses - ((a.shown ?? 0) + a.uses) || (a.dollars ?? a.tokens) - (b.dollars ?? b.tokens);
  return { wins: nets.filter((net) => net.uses >= 0).sort(order), loses: nets.filter((net) => net.uses < 0).sort(order) };
}

interface Props {
  session: string;
  branch: number | null;
  policy: string;
  looked: number;
  remedies: Setting[];
}

export function Remedies({ session, branch, policy, looked, remedies }: Props) {
  const [nets, setNets] = useState<Net[]>([]);
  const [busy, setBusy] = useState(true);
  const [typed, setTyped] = useState<Setting[]>([]);
  const wanted = [...remedies, ...typed];
  const asked = JSON.stringify(wanted);
  const prices = useOwnPrices();
  useEffect(() => {
    const stop = new AbortController();
    const whole = async (name: string, budget: number | null): Promise<PolicyView> => {
      const fields = { session, branch, prices, policies: [name], ...(budget === null ? {} : { budget }) };
      return (await askWhole<CompareView>("compare_policies", fields, stop.signal)).policies[0];
    };
    const load = async () => {
      setNets([]);
      setBusy(true);
      const own = await whole(policy, null);
      for (const remedy of wanted) {
        const other = await whole(remedy.policy, remedy.budget);
        setNets((now) => [...now, netOf(remedy, own, other)]);
      }
      setBusy(false);
    };
    load().catch((error) => !isAbort(error) && setBusy(false));
    return () => stop.abort();
  }, [session, branch, policy, asked, prices]);
  const { wins, loses } = sorted(nets);
  const inView = ({ shown }: Net) => (shown === null ? "" : `${number(shown)} of ${plural(looked, "miss", "misses")} in view; `);
  const tryIt = (event: SubmitEvent) => {
    event.preventDefault();
    const budget = Number(new FormData(event.currentTarget as HTMLFormElement).get("budget"));
    if (!wanted.some((one) => one.budget === budget && one.policy === policy)) setTyped([...typed, { policy, budget, shown: null }]);
  };
  return (
    <div class="remedies" role="status">
      {busy && <span class="spinner" aria-label="Adding up over the whole session" />}
      <ul>
        {wins.map((net) => (
          <li key={nameOf(net)}>
            <strong>{nameOf(net)}</strong>: {inView(net) + said(net)}.
          </li>
        ))}
        {loses.map((net) => (
          <li key={nameOf(net)} class="muted">
            Not {nameOf(net)}: it loses more of what was in view. {inView(net) + said(net)}.
          </li>
        ))}
      </ul>
      <form class="searching" onSubmit={tryIt}>
        <label>
          Another budget <input name="budget" type="number" min={64} required />
        </label>
        <button>Try</button>
      </form>
      {!busy && nets.length > 0 && wins.length === 0 && <p>None of these shows more than it hides.</p>}
    </div>
  );
}

const nameOf = ({ policy, budget }: Setting): string => (budget === null ? policy : `${policy} with a budget of ${number(budget)}`);

const said = (net: Net): string =>
  `over the whole session ${signed(net.uses)} uses in view, ${signed(net.tokens)} prompt tokens, ${net.dollars === null ? "no price" : (net.dollars < 0 ? "" : "+") + dollars(net.dollars)}`;
