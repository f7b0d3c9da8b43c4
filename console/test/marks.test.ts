import { expect, test } from "vitest";
import { nextMark, readMarks, toggled } from "../src/parts/marks";

test("bookmarks are turns, each once and in order", () => {
  expect(readMarks("17,3,3,250")).toEqual([3, 17, 250]);
  expect(readMarks("0,-1,x,,1e3,9999999999,<b>,4")).toEqual([4]);
  expect(readMarks(Array.from({ length: 500 }, (_, turn) => turn + 1).join(","))).toHaveLength(200);
  expect(readMarks("")).toEqual([]);
});

test("a bookmark is set and taken away", () => {
  expect(toggled([3, 17], 5)).toEqual([3, 5, 17]);
  expect(toggled([3, 5, 17], 5)).toEqual([3, 17]);
});

test("one goes from bookmark to bookmark, around the end", () => {
  expect([nextMark([3, 17], 3, false), nextMark([3, 17], 17, false), nextMark([3, 17], 10, true), nextMark([3, 17], 3, true)]).toEqual([17, 3, 3, 17]);
  expect(nextMark([], 3, false)).toBeUndefined();
});
