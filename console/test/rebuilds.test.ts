import { expect, test } from "vitest";
import type { TurnView } from "../src/types";
import { rebuildsOf } from "../src/views/timeline/rebuilds";

const call = (turn: number, results: number, complete: number[], replaced: number[] = []): TurnView =>
  ({ turn, results, complete, substitutes: replaced }) as TurnView;

test("a call that drops results is listed with its dropped and restored results", () => {
  const turns = [call(1, 2, [0, 2]), call(2, 4, [0, 4]), call(3, 5, [2, 3]), call(4, 6, [2, 4], [0, 1])];
  expect(rebuildsOf(turns)).toEqual([{ turn: 3, dropped: 2, restored: 0 }]);
  expect(rebuildsOf([...turns, call(5, 6, [1, 1, 3, 3])])[1]).toEqual({ turn: 5, dropped: 2, restored: 1 });
});

test("calls after an unloaded call are not listed", () => {
  const turns = [call(1, 2, [0, 2])];
  turns[2] = call(3, 3, [2, 1]);
  expect(rebuildsOf(turns)).toEqual([]);
});
