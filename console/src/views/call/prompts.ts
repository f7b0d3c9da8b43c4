// What differs between two prompts of one branch, message by message.
import type { MessageLine } from "../../types";

/** How a prompt has a message: whole, replaced by a shorter text, only some of its calls, or not at all. */
export type Form = "whole" | "excerpt" | "compaction" | "calls" | "out";

export interface Changed {
  position: number;
  line: MessageLine;
  left: Form;
  right: Form;
}

export interface Difference {
  changed: Changed[];
  same: number;
}

/** The messages that one of two prompts has in another form than the other, in order. */
export function differenceOf(left: MessageLine[], right: MessageLine[]): Difference {
  const sides = [byPosition(left), byPosition(right)];
  const positions = [...new Set(sides.flatMap((side) => [...side.keys()]))].sort((a, b) => a - b);
  const changed: Changed[] = [];
  let same = 0;
  for (const position of positions) {
    const [one, other] = sides.map((side) => side.get(position));
    const forms = [formOf(one), formOf(other)];
    if (forms[0] === "out" && forms[1] === "out") continue;
    if (forms[0] === forms[1] && textOf(one) === textOf(other)) same++;
    else changed.push({ position, line: (one ?? other)!, left: forms[0], right: forms[1] });
  }
  return { changed, same };
}

const byPosition = (lines: MessageLine[]): Map<number, MessageLine> => new Map(lines.map((line) => [line.position, line]));

function formOf(line: MessageLine | undefined): Form {
  if (!line) return "out";
  if (line.shown !== "omitted") return line.shown as Form;
  return line.calls.some((call) => call.shown) ? "calls" : "out";
}

const textOf = (line: MessageLine | undefined): string =>
  line ? JSON.stringify([line.text, line.calls.map((call) => call.shown && call.text)]) : "";
