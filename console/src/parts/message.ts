// The text of a message, however long.
import { ask } from "../api";
import type { SessionData } from "../session";
import type { ContentView } from "../types";

/** How many characters are read at a time. */
export const PART = 1 << 18;

export async function readWhole({ key: session, branch }: SessionData, position: number): Promise<string> {
  let text = "";
  for (let start = 0, length = 1; start < length; start += PART) {
    const part = await ask<ContentView>("read_message", { session, branch, position, start, characters: PART });
    text += part.text;
    length = part.length;
  }
  return text;
}
