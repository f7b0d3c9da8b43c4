// Bookmarked turns of a session: kept in this browser, and in the address of a link that was copied.
import { useEffect, useState } from "preact/hooks";
import { address, go, type Place } from "../route";

const KEY = "contextrender.bookmarks";
const MOST = 200;
const CHANGED = "contextrender-bookmarks";

/** Turns of a list such as "3,17", each once and in order; what is no turn is left out. */
export function readMarks(text: string): number[] {
  const turns = text.split(",").filter((part) => /^[1-9]\d{0,8}$/.test(part)).map(Number);
  return [...new Set(turns)].sort((a, b) => a - b).slice(0, MOST);
}

export function toggled(marks: number[], turn: number): number[] {
  if (marks.includes(turn)) return marks.filter((one) => one !== turn);
  return readMarks([...marks, turn].join(","));
}

/** The next bookmark after a turn, or before it; around the end. */
export function nextMark(marks: number[], turn: number, back: boolean): number | undefined {
  const order = back ? [...marks].reverse() : marks;
  return order.find((one) => (back ? one < turn : one > turn)) ?? order[0];
}

const keyOf = (session: string, branch: number | null): string => `${KEY}\n${session}\n${branch ?? ""}`;

/** Forgets a deleted session's bookmarks, of every branch. */
export function forgetMarks(session: string): void {
  const mine = Object.keys(localStorage).filter((key) => key.startsWith(`${KEY}\n${session}\n`));
  for (const key of mine) localStorage.removeItem(key);
}

/** The bookmarks of the session, and how one is set or taken away. */
export function useMarks({ session, branch }: Pick<Place, "session" | "branch">): [number[], (turn: number) => void] {
  const key = keyOf(session, branch);
  const read = () => readMarks(localStorage.getItem(key) ?? "");
  const [marks, setMarks] = useState(read);
  useEffect(() => {
    const changed = () => setMarks(read());
    changed();
    addEventListener("storage", changed);
    addEventListener(CHANGED, changed);
    return () => {
      removeEventListener("storage", changed);
      removeEventListener(CHANGED, changed);
    };
  }, [key]);
  return [marks, (turn) => keep(key, toggled(read(), turn))];
}

/** Bookmarks that came with a link are kept with one's own, and leave the address. */
export function useSharedMarks(place: Place): void {
  const { marks, ...options } = place.options;
  useEffect(() => {
    if (marks === undefined) return;
    const key = keyOf(place.session, place.branch);
    keep(key, readMarks(`${localStorage.getItem(key) ?? ""},${marks}`));
    go(address(place.session, place.view, place.item, place.branch, options), true);
  }, [marks]);
}

/** A link to here that has the bookmarks in it. */
export function sharedAddress({ session, view, item, branch, options }: Place, marks: number[]): string {
  return location.href.split("#")[0] + address(session, view, item, branch, { ...options, marks: marks.join(",") });
}

function keep(key: string, marks: number[]): void {
  if (marks.length) localStorage.setItem(key, marks.join(","));
  else localStorage.removeItem(key);
  dispatchEvent(new Event(CHANGED));
}
