// The same call under another budget, policy or weights. Nothing is stored.
import { plural, signed } from "../../format";
import type { CallView } from "../../types";
import type { Asked } from "./asked";

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
  busy: boolean;
}

const WEIGHTS = [
  ["weight_recency", "Recency", "Weight of recency in U"],
  ["weight_reuse", "Reuse", "Weight of observed reuse, c, in U"],
  ["weight_relevance", "Relevance", "Weight of relevance, s, in U"],
];

export function WhatIf({ own: { explain, parameters }, policies, asked, onChange, difference, busy }: Props) {
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
  const changed = Object.keys(asked).length > 0;
  return (
    <form class={changed ? "whatif changed" : "whatif"} aria-label="What if" onSubmit={(event) => event.preventDefault()}>
      <h2>What if</h2>
      <Slider
        title="Budget"
        hint="In tokens"
        value={asked.budget ?? explain.budget}
        least={Math.min(500, explain.budget)}
        most={most}
        step={50}
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
      {WEIGHTS.map(([name, title, hint]) => (
        <Slider
          key={name}
          title={title}
          hint={hint}
          value={asked.parameters?.[name] ?? parameters[name]}
          most={Math.max(3, parameters[name])}
          step={0.1}
          onValue={(value) => set({ parameters: { ...asked.parameters, [name]: value } })}
        />
      ))}
      <p class="outcome" role="status">
        {!changed ? (
          <span class="muted">As it was. Change a setting to see what would have been shown; nothing is stored.</span>
        ) : (
          <>
            {busy && <span class="spinner" aria-hidden="true" />}
            {difference && <Outcome difference={difference} />}{" "}
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
  onValue: (value: number) => void;
}

function Slider({ title, hint, value, least = 0, most, step, onValue }: SliderProps) {
  return (
    <label title={hint}>
      <span>
        {title} <output>{value}</output>
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

function Outcome({ difference: { added, removed, after } }: { difference: Difference }) {
  if (!added.length && !removed.length) return <span>The same results would have been shown.</span>;
  return (
    <span>
      <strong class="more">+{plural(added.length, "result")}</strong>, <strong class="less">−{plural(removed.length, "result")}</strong>,{" "}
      {signed(after)} tokens.
    </span>
  );
}
