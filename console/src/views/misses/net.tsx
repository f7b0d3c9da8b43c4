// What remedies win and lose over the whole session: uses in view, tokens and dollars.
import { askWhole } from "../../api";
import { dollars, number, plural, signed } from "../../format";
import { groupBy } from "../../group";
import { useTask } from "../../parts/load";
import { ownPrices } from "../../parts/prices";
import type { SessionData } from "../../session";
import type { CompareView, PolicyView, RemediesView } from "../../types";

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
  /** Null where no call has a price. */
  dollars: number | null;
}

/** How many policies are compared over the whole session. */
const TRIED = 3;

/** The smallest budget for all misses that some budget would have shown, and the policies that would have shown most. */
export function together(found: RemediesView[], policy: string): Setting[] {
  const budgets = found.map(({ budget }) => budget).filter((budget) => budget !== null);
  const policies = groupBy(found.flatMap((one) => one.policies), (name) => name);
  const settings = [...policies].map(([name, { length }]): Setting => ({ policy: name, budget: null, shown: length }));
  settings.sort((a, b) => b.shown - a.shown).splice(TRIED);
  return budgets.length ? [{ policy, budget: Math.max(...budgets), shown: budgets.length }, ...settings] : settings;
}

/** A remedy beside how the session was, both over the same calls. */
export function netOf(remedy: Setting, own: PolicyView, other: PolicyView): Net {
  const dollars = own.cost === null || other.cost === null ? null : other.cost - own.cost;
  return { ...remedy, uses: other.seen - own.seen, tokens: other.prompt - own.prompt, dollars };
}

/** Those that lose no uses, the one that wins most first; and those that lose some. */
export function sorted(nets: Net[]): { wins: Net[]; loses: Net[] } {
  const order = (a: Net, b: Net) => b.shown + b.uses - (a.shown + a.uses) || (a.dollars ?? a.tokens) - (b.dollars ?? b.tokens);
  return { wins: nets.filter((net) => net.uses >= 0).sort(order), loses: nets.filter((net) => net.uses < 0).sort(order) };
}

/** `found`: what would have shown each miss that was looked at. */
export function Remedies({ data, found }: { data: SessionData; found: RemediesView[] }) {
  const { line, policy } = data;
  const remedies = together(found, policy);
  const load = async (tell: (nets: Net[]) => void, signal: AbortSignal) => {
    const whole = async (name: string, budget: number | null): Promise<PolicyView> => {
      const fields = { ...line, prices: ownPrices(), policies: [name], ...(budget === null ? {} : { budget }) };
      return (await askWhole<CompareView>("compare_policies", fields, signal)).policies[0];
    };
    let nets: Net[] = [];
    tell(nets);
    if (!remedies.length) return;
    const own = await whole(policy, null);
    for (const remedy of remedies) {
      nets = [...nets, netOf(remedy, own, await whole(remedy.policy, remedy.budget))];
      tell(nets);
    }
  };
  const { value: nets, busy } = useTask<Net[]>([], load, [line, policy, JSON.stringify(remedies)]);
  if (found.length === 0) return null;
  if (remedies.length === 0) return <p role="status">No budget up to 96,000 and no other policy would have shown any.</p>;
  const { wins, loses } = sorted(nets);
  const said = (net: Net) =>
    `${number(net.shown)} of ${plural(found.length, "miss", "misses")} in view; over the whole session ${signed(net.uses)} uses in view, ` +
    `${signed(net.tokens)} prompt tokens, ${net.dollars === null ? "no price" : (net.dollars < 0 ? "" : "+") + dollars(net.dollars)}.`;
  return (
    <div role="status">
      {busy && <span class="spinner" aria-label="Adding up over the whole session" />}
      <ul>
        {wins.map((net) => (
          <li key={nameOf(net)}>
            <strong>{nameOf(net)}</strong>: {said(net)}
          </li>
        ))}
        {loses.map((net) => (
          <li key={nameOf(net)} class="muted">
            Not {nameOf(net)}: it loses more of what was in view. {said(net)}
          </li>
        ))}
      </ul>
      {!busy && nets.length > 0 && wins.length === 0 && <p>None of these shows more than it hides.</p>}
    </div>
  );
}

const nameOf = ({ policy, budget }: Setting): string => (budget === null ? policy : `${policy} with a budget of ${number(budget)}`);
