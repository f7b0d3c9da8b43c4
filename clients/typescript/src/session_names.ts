/**
 * Names of sessions that callers do not name: one for each conversation.
 *
 * Such a name is made from how a history begins. Two people may begin alike and go on differently.
 * The service says where they part, and the history gets a name made from that place.
 */

import type { ChatMessage } from "./chat.js";
import { digestOf } from "./contents.js";

const REMEMBERED = 1024;
/** Shorter ids of calls are counters, and two conversations may share them. */
const SHORTEST_ID = 16;
/** An id that a client made, because the runtime has none. */
const MADE_ID = /^call\-\d+-\d+$/;

/** A name that is the same for every call of one history. */
export function nameOf(messages: readonly ChatMessage[]): string {
  const first = messages.findIndex((message) => message.role === "user");
  return nameFrom("", messages.slice(0, first < 0 ? 1 : first + 1));
}

/** Whether messages have a tool call with an id that no other conversation has. */
export function hasUniqueCall(messages: readonly ChatMessage[]): boolean {
  const ids = messages.flatMap((message) => (message.tool_calls ?? []).map((call) => call.id));
  return ids.some((id) => id.length >= SHORTEST_ID && !MADE_ID.test(id));
}

/** The names of histories that begin alike, by where they part, as this client has seen. */
export class SessionNames {
  readonly #forks = new Map<string, Map<number, Map<string, string>>>();

  /** The name of a history whose beginning has this name. */
  find(name: string, messages: readonly ChatMessage[]): string {
    const forks = this.#forks.get(name);
    for (const place of [...(forks?.keys() ?? [])].sort((one, other) => one - other)) {
      const own = place < messages.length && forks?.get(place)?.get(beginning(messages, place));
      if (own) return this.find(own, messages);
    }
    return name;
  }

  /** Remembers that a history differs from the one of this name at message `fork`. */
  add(name: string, messages: readonly ChatMessage[], fork: number): void {
    const begun = beginning(messages, fork);
    const forks = this.#forks.get(name) ?? new Map<number, Map<string, string>>();
    this.#forks.delete(name);
    this.#forks.set(name, forks);
    forks.set(fork, (forks.get(fork) ?? new Map<string, string>()).set(begun, nameFrom(name, begun)));
    for (const oldest of this.#forks.keys()) {
      if (this.#forks.size <= REMEMBERED) break;
      this.#forks.delete(oldest);
    }
  }
}

function nameFrom(origin: string, beginning: unknown): string {
  return `auto-${digestOf(JSON.stringify([origin, beginning]))}`;
}

/** A digest of the messages up to the first that differs, without system prompts. */
function beginning(messages: readonly ChatMessage[], fork: number): string {
  const begun = messages.slice(0, fork + 1);
  return digestOf(JSON.stringify(begun.filter(({ role }) => role !== "system" && role !== "developer")));
}
