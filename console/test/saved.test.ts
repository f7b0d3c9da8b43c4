import { describe, expect, it } from "vitest";
import { grouped, saved, total } from "../src/views/overall";
import type { SavedRow } from "../src/types";

const row = (changed: Partial<SavedRow>): SavedRow => ({
  day: "2026-11-21",
  client: "",
  model: "m",
  policy: "p",
  delivery: "rendered",
  calls: 2,
  over_budget: 1,
  full: 120,
  full_capped: 100,
  full_capped_cached: 50,
  prompt: 40,
  cached: 10,
  output: 5,
  results_used: 4,
  results_used_visible: 3,
  steps: 2,
  steps_with_misses: 1,
  misses: 1,
  calls_with_usage: 0,
  cost: 1,
  full_cost: 3,
  is_estimate: true,
  price_source: "",
  ...changed,
});

describe("sums of savings", () => {
  it("adds rows", () => {
    const sums = total("all", [row({}), row({ prompt: 150, cost: null, full_cost: null })]);
    expect(sums).toMatchObject({ calls: 4, full_capped: 200, prompt: 190, unpriced: 2, cost: 1, full_cost: 3 });
    expect(saved(sums)).toBe(10);
  });

  it("lists the newest day first", () => {
    const rows = [row({ day: "2026-11-20" }), row({ day: "2026-11-22" }), row({ day: "2026-11-21" })];
    expect(grouped(rows, "day").map((sums) => sums.name)).toEqual(["2026-11-22", "2026-11-21", "2026-11-20"]);
  });

  it("has a line for each model of each day", () => {
    const rows = [row({}), row({ model: "" }), row({ day: "2026-11-22" })];
    expect(grouped(rows, "day and model").map((sums) => sums.name)).toEqual(["2026-11-22 m", "2026-11-21 unknown", "2026-11-21 m"]);
  });

  it("has no dollars if no call has a price", () => {
    expect(total("all", [row({ cost: null, full_cost: null })])).toMatchObject({ cost: null, full_cost: null, unpriced: 2 });
  });

  it("sorts by savings, losses last", () => {
    const rows = [row({ model: "loss", prompt: 500 }), row({ model: "some" }), row({ model: "most", prompt: 1 })];
    expect(grouped(rows, "model").map((sums) => sums.name)).toEqual(["most", "some", "loss"]);
  });
});
