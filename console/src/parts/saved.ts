// Sums of what calls saved: rows by day, client, model, policy and what was sent, added up by one of them.
import type { SavedRow } from "../types";

export const GROUPS = ["day", "model", "day and model", "client", "policy", "sent"] as const;
export type Group = (typeof GROUPS)[number];

const SUMMED = ["calls", "full", "capped", "prompt", "drawn", "seen", "billed", "billed_cost", "whole_cost"] as const;

/** Sums of rows. `unpriced` calls are of models without a price: dollars are of the others. */
export interface Total extends Record<(typeof SUMMED)[number], number> {
  name: string;
  unpriced: number;
  /** Null where no call has a price. */
  cost: number | null;
  full_cost: number | null;
  /** Models whose price is another's, and whose. */
  pricedAs: [string, string][];
}

export function total(name: string, rows: SavedRow[]): Total {
  const sum = (of: (row: SavedRow) => number | null) => rows.reduce((all, row) => all + (of(row) ?? 0), 0);
  const sums = Object.fromEntries(SUMMED.map((field) => [field, sum((row) => row[field])]));
  const priced = rows.some((row) => row.cost !== null);
  return {
    ...(sums as Record<(typeof SUMMED)[number], number>),
    name,
    unpriced: sum((row) => (row.cost === null ? row.calls : 0)),
    cost: priced ? sum((row) => row.cost) : null,
    full_cost: priced ? sum((row) => row.full_cost) : null,
    pricedAs: [...new Map(rows.filter((row) => row.priced_as).map((row) => [row.model, row.priced_as]))],
  };
}

/** One total for each value, days newest first, others by what they saved. */
export function grouped(rows: SavedRow[], by: Group): Total[] {
  const found = new Map<string, SavedRow[]>();
  for (const row of rows) {
    const name = by === "day and model" ? `${row.day} ${row.model || "unknown"}` : row[by];
    found.set(name, [...(found.get(name) ?? []), row]);
  }
  const totals = [...found].map(([name, some]) => total(name, some));
  if (by.startsWith("day")) return totals.sort((a, b) => (a.name < b.name ? 1 : -1));
  return totals.sort((a, b) => saved(b) - saved(a));
}

export const saved = (sums: Total): number => sums.capped - sums.prompt;
