// What room there was for a result that was left out.
import { number } from "../format";

export interface Left {
  cost: number;
  left: number | null;
  after: number | null;
}

export function room({ cost, left, after }: Left): string {
  if (left === null) return "";
  if (after === null) return `; ${number(left)} tokens kept free for what comes next`;
  const when = after ? `after the first ${number(after)}` : "from the start";
  return `: it needed ${number(cost)} tokens, ${number(left)} were left ${when}`;
}
