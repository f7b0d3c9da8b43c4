import { expect, test } from "vitest";
import { ticksTo } from "../src/parts/ticks";

test("ticks are round, few, reach the highest, and have the whole among them", () => {
  expect(ticksTo(1)).toEqual([0, 0.25, 0.5, 0.75, 1]);
  expect(ticksTo(1.03)).toEqual([0, 0.25, 0.5, 0.75, 1, 1.25]);
  expect(ticksTo(3.28)).toEqual([0, 1, 2, 3, 4]);
  expect(ticksTo(7.5)).toEqual([0, 1, 2, 4, 6, 8]);
});
