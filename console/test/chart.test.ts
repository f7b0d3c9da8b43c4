import { expect, test } from "vitest";
import { ticksOf } from "../src/parts/chart";

test("ticks are few, round and within the axis", () => {
  expect(ticksOf(0, 1)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
  expect(ticksOf(0, 3.28)).toEqual([0, 1, 2, 3]);
  expect(ticksOf(-0.3, 0.1)).toEqual([-0.3, -0.2, -0.1, 0, 0.1]);
  expect(ticksOf(1, 49)).toEqual([10, 20, 30, 40]);
  expect(ticksOf(0, 0)).toEqual([0]);
});
