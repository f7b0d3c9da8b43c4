// A policy and a budget under which a session is recomputed, and the difference that they make.
import { budgetOf, dollars, number, percent, plural } from "./format";
import type { Options } from "./route";
import type { PolicyView } from "./types";

/** `budget` is in tokens, or "auto". */
export interface Setting {
  policy: string;
  budget: number | string;
}

/** Return the setting that an address names; null if it names none. */
export function settingOf({ policy, budget }: Options, current: Setting): Setting | null {
  if (!policy && !budget) return null;
  return { policy: policy || current.policy, budget: /^\d+$/.test(budget ?? "") ? Number(budget) : budget || current.budget };
}

export const optionsOf = ({ policy, budget }: Setting): Options => ({ policy, budget: String(budget) });

export const isSame = (first: Setting, other: Setting): boolean => first.policy === other.policy && String(first.budget) === String(other.budget);

export const nameOf = ({ policy, budget }: Setting): string =>
  policy === "full" ? "full history" : `${policy} with ${budget === "auto" ? "the automatic budget" : `${budgetOf(budget, number)} tokens`}`;

/** The line for the environment, as the proxy and `wrap` read it. */
export const configurationOf = ({ policy, budget }: Setting): string => `CONTEXTRENDER_POLICY=${policy} CONTEXTRENDER_BUDGET=${budget}`;

type Steps = Pick<PolicyView, "steps" | "steps_with_misses">;
/** Return the share of steps that had every value they used, as text. */
export const headlineShare = ({ steps, steps_with_misses }: Steps): string => (steps ? percent(1 - steps_with_misses / steps) : "–");

/** The headline: the share of steps, answers that used an earlier result, that had every value they used. */
export function headlineOf(view: Steps): string {
  if (view.steps === 0) return "No answer used an earlier result.";
  const all = `${headlineShare(view)} of ${plural(view.steps, "step")} had every value they used`;
  return `${all}; ${view.steps_with_misses ? `${number(view.steps_with_misses)} missed one` : "none missed any"}.`;
}

/** A miss of a session, by its turn and its result. */
export interface Missed {
  turn: number;
  position: number;
}

/** The misses of a session as they are loaded: `missed` holds indices of `results`. */
interface LoadedMisses {
  readonly turns: readonly { turn: number; misses: readonly number[] }[];
  readonly results: readonly { position: number }[];
}

export interface Verdict {
  avoided: Missed[];
  added: Missed[];
}

/** Compare the misses of a session with those under another setting, both completely loaded. */
export function verdictOf(current: LoadedMisses, alternative: LoadedMisses): Verdict {
  const [before, after] = [missesOf(current), missesOf(alternative)];
  const only = (first: Map<string, Missed>, other: Map<string, Missed>) => [...first].filter(([key]) => !other.has(key)).map(([, miss]) => miss);
  return { avoided: only(before, after), added: only(after, before) };
}

function missesOf(data: LoadedMisses): Map<string, Missed> {
  const misses = data.turns.flatMap((turn) => turn.misses.map((result) => ({ turn: turn.turn, position: data.results[result]?.position ?? -1 })));
  return new Map(misses.map((miss) => [`${miss.turn} ${miss.position}`, miss]));
}

/** A verdict in one sentence: `more` is the difference in dollars, null if a price is missing. */
export function sentenceOf({ avoided, added }: Verdict, more: number | null): string {
  const misses = [avoided.length && `${plural(avoided.length, "miss", "misses")} would be gone`, added.length && `${plural(added.length, "miss", "misses")} would be new`];
  const change = misses.filter(Boolean).join(" and ") || "The same values would be missed";
  const cost = more === null ? "the model has no price" : Math.abs(more) < 0.00005 ? "for the same cost" : `for ${dollars(Math.abs(more))} ${more > 0 ? "more" : "less"}`;
  return `${change}, ${cost}.`;
}
