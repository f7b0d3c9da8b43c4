// The same call under another budget, policy or weights, and what that would have changed. Nothing is stored.
import { useState } from "preact/hooks";
import { plural, signed } from "../../format";
import type { Options } from "../../route";
import type { CallView, MissView } from "../../types";

/** The settings that differ from those of the call; they are in the address. */
export interface Asked {
  budget?: number;
  policy?: string;
  parameters?: Record<string, number>;
}

const PREFIX = "set.";

export function askedOf(options: Options): Asked {
  const asked: Asked = {};
  if (/^\d+$/.test(options.budget ?? "")) asked.budget = Number(options.budget);
  if (options.policy) asked.policy = options.policy;
  for (const [name, value] of Object.entries(options)) {
    if (name.startsWith(PREFIX) && value !== "" && Number.isFinite(Number(value)))
      asked.parameters = { ...asked.parameters, [name.slice(PREFIX.length)]: Number(value) };
  }
  return asked;
}

export function optionsOf({ budget, policy, parameters = {} }: Asked): Options {
  const said = Object.entries(parameters).map(([name, value]) => [PREFIX + name, String(value)]);
  return { ...(budget ? { budget: String(budget) } : {}), ...(policy ? { policy } : {}), ...Object.fromEntries(said) };
}

/** What asking with other settings changes in a call. */
export interface Difference {
  added: number[];
  removed: number[];
  after: number;
}

interface Props {
  own: CallView;
  policies: string[];
  asked: Asked;
  onChange: (asked: Asked) => void;
  difference: Difference | null;
  /** Misses of the answer as it was, and under these settings; null while they are unknown. */
  misses: [MissView[], MissView[]] | null;
  busy: boolean;
}

/** A parameter of the method: its field, name, meaning, largest value and step. */
type Weight = [field: string, title: string, hint: string, most: number, step: number];

const WEIGHTS: Weight[] = [
  ["weight_recency", "Recency", "Weight of recency in U", 3, 0.1],
  ["weight_reuse", "Reuse", "Weight of observed reuse, c, in U", 3, 0.1],
  ["weight_relevance", "Relevance", "Weight of relevance, s, in U", 3, 0.1],
];
const RARE: Weight[] = [
  ["recency_decay", "Recency decay", "", 2, 0.05],
  ["reuse_rate", "Reuse rate", "", 2, 0.05],
  ["redundancy_penalty", "Redundancy penalty", "", 2, 0.1],
  ["query_task_share", "Task’s share of the query", "", 1, 0.05],
];
const LOWEST = 64;
/** The policy that the weights belong to: they change nothing under any other. */
const WEIGHTED = "contextrender";

export function WhatIf({ own: { explain, parameters }, policies, asked, onChange, difference, misses, busy }: Props) {
  const most = Math.max(2 * explain.budget, Math.min(explain.tokens.before + 500, 200_000));
  const set = (change: Asked) => {
    const next: Asked = { ...asked, ...change };
    if (next.budget === explain.budget) delete next.budget;
    if (next.policy === explain.policy) delete next.policy;
    const other = Object.entries(next.parameters ?? {}).filter(([name, value]) => value !== parameters[name]);
    next.parameters = Object.fromEntries(other);
    if (!other.length) delete next.parameters;
    onChange(next);
  };
  const weight = ([name, title, hint, largest, step]: Weight) => (
    <Slider
      key={name}
      title={title}
      hint={hint}
      value={asked.parameters?.[name] ?? parameters[name]}
      most={Math.max(largest, parameters[name])}
      step={step}
      onValue={(value) => set({ parameters: { ...asked.parameters, [name]: value } })}
    />
  );
  const changed = Object.keys(asked).length > 0;
  return (
    <form class={changed ? "card row whatif changed" : "card row whatif"} aria-label="What if" onSubmit={(event) => event.preventDefault()}>
      <h2>What if</h2>
      <Slider
        title="Budget"
        hint="In tokens"
        value={asked.budget ?? explain.budget}
        least={Math.min(500, explain.budget)}
        most={most}
        step={50}
        lowest={LOWEST}
        onValue={(budget) => set({ budget })}
      />
      <label>
        <span>Policy</span>
        <select value={asked.policy ?? explain.policy} onChange={(event) => set({ policy: event.currentTarget.value })}>
          {policies.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {(asked.policy ?? explain.policy) === WEIGHTED && (
        <>
          {WEIGHTS.map(weight)}
          <details>
            <summary>More</summary>
            <div class="toolbar">{RARE.map(weight)}</div>
          </details>
        </>
      )}
      <p class="outcome" role="status">
        {!changed ? (
          <span class="muted">The call as it was made. Change a setting to see another prompt; nothing is stored.</span>
        ) : (
          <>
            {busy && <span class="spinner" aria-hidden="true" />}
            {difference && <Outcome difference={difference} misses={misses} />}{" "}
            <button type="button" onClick={() => onChange({})}>
              Reset
            </button>
          </>
        )}
      </p>
    </form>
  );
}

interface SliderProps {
  title: string;
  hint: string;
  value: number;
  least?: number;
  most: number;
  step: number;
  /** What may be typed, too, at the least. */
  lowest?: number;
  onValue: (value: number) => void;
}

function Slider({ title, hint, value, least = 0, most, step, lowest, onValue }: SliderProps) {
  // What stands in the field while it is being typed, be it a value yet or not.
  const [typed, setTyped] = useState<string | null>(null);
  const type = (said: string) => {
    setTyped(said);
    if (Number(said) >= lowest!) onValue(Math.round(Number(said)));
  };
  return (
    <label title={hint}>
      <span>
        {title}{" "}
        {lowest === undefined ? (
          <output>{value}</output>
        ) : (
          <input
            type="number"
            aria-label={`${title} in tokens`}
            min={lowest}
            step="any"
            value={typed ?? value}
            onInput={(event) => type(event.currentTarget.value)}
            onBlur={() => setTyped(null)}
          />
        )}
      </span>
      <input
        type="range"
        aria-label={title}
        min={least}
        max={most}
        step={step}
        value={value}
        onInput={(event) => onValue(Number(event.currentTarget.value))}
      />
    </label>
  );
}

function Outcome({ difference: { added, removed, after }, misses }: Pick<Props, "misses"> & { difference: Difference }) {
  if (!added.length && !removed.length) return <span>The prompt would have had the same results.</span>;
  return (
    <span>
      {misses && verdictOn(...misses)} <strong class="good">+{plural(added.length, "result")}</strong>, <strong class="bad">−{plural(removed.length, "result")}</strong>,{" "}
      {signed(after)} tokens.
    </span>
  );
}

/** Return whether the answer would have missed more or less. */
function verdictOn(before: MissView[], after: MissView[]): string {
  const without = (misses: MissView[], others: MissView[]) => misses.filter((miss) => !others.some((other) => other.result === miss.result)).length;
  const [avoided, added] = [without(before, after), without(after, before)];
  if (!before.length && !added) return "The answer missed nothing, and would not.";
  const parts = [avoided && `${plural(avoided, "miss", "misses")} would be gone`, added && `${plural(added, "miss", "misses")} would be new`];
  const text = parts.filter(Boolean).join(" and ") || "the answer would miss the same";
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}
