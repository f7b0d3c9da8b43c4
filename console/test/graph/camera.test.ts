import { expect, test } from "vitest";
import { at, centred, fitted, moved, spanning, zoomed } from "../../src/views/graph/camera";

const WINDOW = { width: 1000, height: 500, left: 100, top: 20 };
const EXTENT = { width: 2000, height: 30 };
const FIT = fitted(EXTENT, WINDOW);

test("zooming keeps the point under the pointer and ends at the full picture", () => {
  const place = { x: 700, y: 10 };
  const [x, y] = at(FIT, place);
  const [nx, ny] = at(zoomed(FIT, 3, x, FIT), place);
  expect([nx, ny]).toEqual([expect.closeTo(x), expect.closeTo(y)]);
  expect(zoomed(FIT, 0.01, 5, FIT).across).toBe(FIT.across);
});

test("the picture stays in the window", () => {
  expect(moved(FIT, 5000, 0, EXTENT, WINDOW).x).toBeCloseTo(FIT.x);
  const right = moved(zoomed(FIT, 20, 500, FIT), -1e9, 0, EXTENT, WINDOW);
  expect(right.x + EXTENT.width * right.across).toBeCloseTo(WINDOW.width - 14);
});

test("a position is centred, a span fills the window", () => {
  expect(at(centred(FIT, { x: 3, y: 4 }, WINDOW), { x: 3, y: 4 })).toEqual([550, 260]);
  const span = spanning(FIT, 100, 116, WINDOW);
  expect(at(span, { x: 100, y: 0 })[0]).toBeCloseTo(114);
  expect(at(span, { x: 116, y: 0 })[0]).toBeCloseTo(986);
});
