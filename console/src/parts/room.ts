// What room there was for a result that was left out.
import { number } from "../format";

export interface Left {
  cost: number;
  left: number | null;
  after: number | null;
}

export function room({ cost, left, after }: Left): string {
  if (left === null) return "";
  const when = after === null ? "in the end" : after ? `after the first ${number(after)}` : "from the start";
  return `: it needed ${number(cost)} tokens, ${number(left)} were left ${when}`;
}
