// Round places along an axis of shares.

const STEPS = [0.25, 0.5, 1, 2, 5, 10, 25, 50, 100];
const MOST = 5;

/** Round shares from 0 on, at most a handful, 1 among them; the last is no less than `most`. */
export function ticksTo(most: number): number[] {
  const step = STEPS.find((one) => most / one <= MOST) ?? most / MOST;
  const count = Math.ceil(most / step);
  const ticks = Array.from({ length: count + 1 }, (_, index) => index * step);
  return ticks.includes(1) ? ticks : [...ticks, 1].sort((a, b) => a - b);
}
