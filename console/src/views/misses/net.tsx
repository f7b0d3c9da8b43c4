// What a remedy wins and loses over the whole session: uses in view, tokens and dollars.
import { useEffect, useState } from "preact/hooks";
import { ask, isAbort } from "../../api";
import { dollars, number, plural, signed } from "../../format";
import type { CompareView, PolicyView } from "../../types";

export interface Setting {
  policy: string;
  /** The session's own where null. */
  budget: number | null;
  /** How many of the misses looked at it would have shown. */
  shown: number;
}

export interface Net extends Setting {
  uses: number;
  tokens: number;
  dollars: number;
}

/** A remedy beside how the session was, both over the same calls. */
export function netOf(remedy: Setting, own: PolicyView, other: PolicyView): Net {
  return { ...remedy, uses: other.seen - own.seen, tokens: other.prompt - own.prompt, dollars: other.cost.prefix - own.cost.prefix };
}

/** Those that lose no uses, the one that wins most first; and those that lose some. */
export function sorted(nets: Net[]): { wins: Net[]; loses: Net[] } {
  const order = (a: Net, b: Net) => b.shown + b.uses - (a.shown + a.uses) || a.dollars - b.dollars;
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
  const asked = JSON.stringify(remedies);
  useEffect(() => {
    const stop = new AbortController();
    const whole = async (name: string, budget: number | null): Promise<PolicyView> => {
      for (;;) {
        const fields = { session, branch, policies: [name], ...(budget === null ? {} : { budget }) };
        const view = await ask<CompareView>("compare_policies", fields, stop.signal);
        if (view.complete) return view.policies[0];
      }
    };
    const load = async () => {
      setNets([]);
      setBusy(true);
      const own = await whole(policy, null);
      for (const remedy of remedies) {
        const other = await whole(remedy.policy, remedy.budget);
        setNets((now) => [...now, netOf(remedy, own, other)]);
      }
      setBusy(false);
    };
    load().catch((error) => !isAbort(error) && setBusy(false));
    return () => stop.abort();
  }, [session, branch, policy, asked]);
  const { wins, loses } = sorted(nets);
  return (
    <div class="remedies" role="status">
      {busy && <span class="spinner" aria-label="Adding up over the whole session" />}
      <ul>
        {wins.map((net) => (
          <li key={nameOf(net)}>
            <strong>{nameOf(net)}</strong>: {number(net.shown)} of {plural(looked, "miss", "misses")} in view; {said(net)}.
          </li>
        ))}
        {loses.map((net) => (
          <li key={nameOf(net)} class="muted">
            Not {nameOf(net)}: it loses more of what was in view. {number(net.shown)} of {plural(looked, "miss", "misses")} in view; {said(net)}.
          </li>
        ))}
      </ul>
      {!busy && nets.length > 0 && wins.length === 0 && <p>None of these shows more than it hides.</p>}
    </div>
  );
}

const nameOf = ({ policy, budget }: Setting): string => (budget === null ? policy : `${policy} with a budget of ${number(budget)}`);

const said = (net: Net): string =>
  `over the whole session ${signed(net.uses)} uses in view, ${signed(net.tokens)} prompt tokens, ${net.dollars < 0 ? "" : "+"}${dollars(net.dollars)}`;
