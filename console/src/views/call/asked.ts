// What is asked of a call besides how it was made, and how the address says it.
import type { Options } from "../../route";

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
