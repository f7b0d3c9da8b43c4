import { describe, expect, test } from "vitest";
import { ago, decimals, dollars, percent, plural, ranges, short, timesOf } from "../src/format";

test.each([
  [0, "0"],
  [999, "999"],
  [1234, "1.2K"],
  [99_950, "100K"],
  [999_949, "1000K"],
  [999_950, "1M"],
  [-2_500_000, "-2.5M"],
  [1_200_000_000, "1.2B"],
])("%d is short as %s", (value, text) => expect(short(value)).toBe(text));

test.each([
  [0, "0%"],
  [0.004, "0.4%"],
  [0.095, "9.5%"],
  [0.1, "10%"],
  [0.994, "99%"],
  [0.996, "99.6%"],
  [0.9999, "99.9%"],
  [1, "100%"],
])("a share of %d is %s", (share, text) => expect(percent(share)).toBe(text));

test.each([
  [0.00314, "$0.0031"],
  [1.5, "$1.50"],
  [-1.5, "−$1.50"],
  [1234.5, "$1,235"],
])("%d dollars are %s", (value, text) => expect(dollars(value)).toBe(text));

describe("time since an event", () => {
  const now = 1_000_000_000;
  test.each([
    [0, "just now"],
    [-30, "just now"],
    [59, "1 min ago"],
    [3599, "60 min ago"],
    [7200, "2 h ago"],
    [3 * 86_400, "3 d ago"],
  ])("%d seconds", (past, text) => expect(ago(now - past, now)).toBe(text));
});

test("positions are formatted as ranges", () => {
  expect(ranges([3, 4, 5, 8, 10, 11])).toBe("3–5, 8, 10–11");
  expect(ranges([])).toBe("");
});

test("unknown values are a dash, and singular differs from plural", () => {
  expect(decimals(null)).toBe("–");
  expect(decimals(0.5)).toBe("0.50");
  expect([plural(1, "turn"), plural(1200, "turn"), plural(2, "entry", "entries")]).toEqual(["1 turn", "1,200 turns", "2 entries"]);
});

test("times of a provider's reply are in seconds, unless they are unknown", () => {
  expect(timesOf({ first_byte_ms: 1234, reply_ms: 5000 })).toBe("first byte after 1.2 s, whole answer after 5.0 s");
  expect(timesOf({ first_byte_ms: 0, reply_ms: 0 })).toBe("");
});
