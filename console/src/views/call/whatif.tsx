// The same call under another budget, policy or weights. Nothing is stored.
import { useState } from "preact/hooks";
import { plural, signed } from "../../format";
import type { CallView } from "../../types";
import type { Asked } from "./asked";
import type { Difference } from "./difference";

interface Props {
  own: CallView;
  policies: string[];
  asked: Asked;
  onChange: (asked: Asked) => void;
  difference: Difference | null;
  busy: boolean;
}

const WEIGHTS: [string, string, string][] = [
  ["weight_recency", "Recency", "Weight of recency in U"],
  ["weight_reuse", "Reuse", "Weight of observed reuse, c, in U"],
  ["weight_relevance", "Relevance", "Weight of relevance, s, in U"],
];
const OTHERS: [string, string, number, number][] = [
  ["recency_decay", "Recency decay", 2, 0.05],
  ["reuse_rate", "Reuse rate", 2, 0.05],
  ["redundancy_penalty", "Redundancy penalty", 2, 0.1],
  ["query_task_share", "Task’s share of the query", 1, 0.05],
];
const LOWEST = 64;

export function WhatIf({ own, policies, asked, onChange, difference, busy }: Props) {
  const budget = asked.budget ?? own.explain.budget;
  // What stands in the field while it is being typed, be it a budget yet or not.
  const [typed, setTyped] = useState<string | null>(null);
  const most = Math.max(2 * own.explain.budget, Math.min(own.explain.tokens.before + 500, 200_000));
  const set = (change: Asked) => {
    const next: Asked = { ...asked, ...change };
    if (next.budget === own.explain.budget || !(next.budget! >= LOWEST)) delete next.budget;
    if (next.policy === own.explain.policy) delete next.policy;
    for (const [name, value] of Object.entries(next.parameters ?? {})) {
      if (value === own.parameters[name]) delete next.parameters![name];
    }
    if (next.parameters && !Object.keys(next.parameters).length) delete next.parameters;
    onChange(next);
  };
  const value = (name: string) => asked.parameters?.[name] ?? own.parameters[name];
  const slider = (name: string, title: string, max: number, step: number, hint = "") => (
    <label key={name} title={hint}>
      <span>
        {title} <output>{value(name)}</output>
      </span>
      <input
        type="range"
        aria-label={title}
        min={0}
        max={Math.max(max, own.parameters[name])}
        step={step}
        value={value(name)}
        onInput={(event) => set({ parameters: { ...asked.parameters, [name]: Number(event.currentTarget.value) } })}
      />
    </label>
  );
  const changed = Object.keys(asked).length > 0;
  return (
    <form class={changed ? "whatif changed" : "whatif"} aria-label="What if" onSubmit={(event) => event.preventDefault()}>
      <h2>What if</h2>
      <label>
        <span>
          Budget{" "}
          <input
            class="inline"
            type="number"
            min={LOWEST}
            step="any"
            value={typed ?? budget}
            aria-label="Budget in tokens"
            onInput={(event) => {
              setTyped(event.currentTarget.value);
              const size = Math.round(Number(event.currentTarget.value));
              if (size >= LOWEST) set({ budget: size });
            }}
            onBlur={() => setTyped(null)}
          />
        </span>
        <input
          type="range"
          aria-label="Budget"
          min={Math.min(500, own.explain.budget)}
          max={most}
          step={50}
          value={budget}
          onInput={(event) => set({ budget: Number(event.currentTarget.value) })}
        />
      </label>
      <label>
        <span>Policy</span>
        <select value={asked.policy ?? own.explain.policy} onChange={(event) => set({ policy: event.currentTarget.value })}>
          {policies.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {WEIGHTS.map(([name, title, hint]) => slider(name, title, 3, 0.1, hint))}
      <details>
        <summary>More</summary>
        <div>{OTHERS.map(([name, title, max, step]) => slider(name, title, max, step))}</div>
      </details>
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

function Outcome({ difference: { added, removed, after } }: { difference: Difference }) {
  if (!added.length && !removed.length) return <span>The same results would have been shown.</span>;
  return (
    <span>
      <strong class="more">+{plural(added.length, "result")}</strong>, <strong class="less">−{plural(removed.length, "result")}</strong>,{" "}
      {signed(after)} tokens.
    </span>
  );
}
