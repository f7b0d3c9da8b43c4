import { expect, test } from "vitest";
import { costOf } from "../src/parts/cost";
import type { MessageLine } from "../src/types";
import { cacheSentence, differenceOf } from "../src/views/call/compare";

const line = (position: number, shown = "complete", text = "a", calls: boolean[] = []): MessageLine => ({
  position,
  role: "tool",
  name: "read",
  turn: 1,
  tokens: 10,
  display: shown,
  unbudgeted: false,
  text,
  text_complete: true,
  calls: calls.map((shown) => ({ name: "read", tokens: 1, text: "{}", text_complete: true, result: null, in_prompt: shown })),
});

test("messages with equal form in both prompts are equal", () => {
  expect(differenceOf([line(1), line(2, "excerpt")], [line(1), line(2, "excerpt")])).toEqual({ changed: [], same: 2, end: null });
});

test("messages missing in both prompts are no difference", () => {
  expect(differenceOf([line(1, "omitted")], [])).toEqual({ changed: [], same: 0, end: null });
});

test("added, dropped and truncated messages differ", () => {
  const { changed } = differenceOf([line(1), line(2), line(4)], [line(2, "excerpt"), line(3), line(4, "omitted")]);
  expect(changed.map(({ position, left, right }) => [position, left, right])).toEqual([
    [1, "complete", "out"],
    [2, "complete", "excerpt"],
    [3, "out", "complete"],
    [4, "complete", "out"],
  ]);
});

test("the cached prefix ends at the first message that differs", () => {
  expect(differenceOf([line(1), line(2)], [line(1), line(2), line(3)]).end).toBe(null);
  expect(differenceOf([line(1), line(2), line(3)], [line(1), line(2, "excerpt"), line(3)]).end).toBe(2);
  expect(differenceOf([line(1), line(3)], [line(1), line(2), line(3)]).end).toBe(2);
  const usage = { uncached: 5, cache_read: 20, cache_write: 0, cache_write_1h: 0, output: 1 };
  const read = "Turn 8 can read the prompt before message #2 of turn 7 from a provider’s cache. The provider read 20 of 25 prompt tokens from it.";
  expect(cacheSentence(2, 7, 8, null, usage, null)).toBe(read);
  const price = { uncached: 0.5, cache_read: 0.1, cache_write: 0.5, cache_write_1h: 0.5, output: 1, per_call: 0.25 };
  expect(costOf(usage, price)).toBe(5.75);
  expect(cacheSentence(2, 7, 8, { ...usage, cache_read: 18 }, usage, price)).toBe(`${read} To read all 23 that the earlier prompt had would have cost $1.20 less.`);
  expect(cacheSentence(2, 7, 8, { ...usage, cache_read: 10 }, usage, price)).toBe(read);
  expect(cacheSentence(null, 7, 8, null, null, null)).toBe("Turn 8 can read the whole prompt of turn 7 from a provider’s cache.");
});

test("texts are compared if both prompts have one", () => {
  const { changed } = differenceOf([line(1, "complete", "a b"), line(2)], [line(1, "excerpt", "a"), line(2, "omitted")]);
  expect(changed.map(({ texts }) => texts)).toEqual([["a b", "a"], null]);
});

test("two excerpts of one result may differ", () => {
  expect(differenceOf([line(1, "excerpt", "a")], [line(1, "excerpt", "b")]).changed).toHaveLength(1);
});

test("an answer without text is recognised by its calls", () => {
  const { changed } = differenceOf([line(1, "omitted", "", [true])], [line(1, "omitted", "", [false])]);
  expect(changed.map(({ left, right }) => [left, right])).toEqual([["calls", "out"]]);
});
