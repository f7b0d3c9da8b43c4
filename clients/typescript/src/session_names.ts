/**
 * Names of sessions that callers do not name: one for each conversation.
 *
 * Such a name is made from the first messages. Two conversations may begin with the same messages.
 * The service then reports the first message that differs, and the name is made from that message. A
 * history that ends before the recorded one gets a name that is made from all of its messages.
 */

import type { ChatMessage } from "./chat.js";
import { digestOf } from "./contents.js";

const MAX_NAMES = 1024;

/** Returns the name of a history, which is the same in each of its calls. */
export function nameOf(messages: readonly ChatMessage[]): string {
  const first = messages.findIndex((message) => message.role === "user");
  return nameFrom("", messages.slice(0, first < 0 ? 1 : first + 1));
}

/** The names of histories that begin with the same messages. */
export class SessionNames {
  /**
   * By name, by the number of the first message that differs (`fork`), and by the digest of a
   * history's messages up to it: the history's new name.
   */
  readonly #forks = new Map<string, Map<number, Map<string, string>>>();

  /** Returns the name of a history whose first messages have this name. */
  find(name: string, messages: readonly ChatMessage[]): string {
    const forks = this.#forks.get(name);
    for (const fork of [...(forks?.keys() ?? [])].sort((one, other) => one - other)) {
      if (fork > messages.length) break;
      const newName = forks?.get(fork)?.get(digestUpTo(messages, fork));
      // The new name may itself have forks.
      if (newName) return this.find(newName, messages);
    }
    return name;
  }

  /** Makes a new name for a history that differs from the one called `name` at message `fork`. */
  add(name: string, messages: readonly ChatMessage[], fork: number): void {
    const digest = digestUpTo(messages, fork);
    const forks = this.#forks.get(name) ?? new Map<number, Map<string, string>>();
    this.#forks.delete(name);
    this.#forks.set(name, forks);
    forks.set(fork, (forks.get(fork) ?? new Map<string, string>()).set(digest, nameFrom(name, digest)));
    for (const oldest of this.#forks.keys()) {
      if (this.#forks.size <= MAX_NAMES) break;
      this.#forks.delete(oldest);
    }
  }
}

function nameFrom(origin: string, beginning: unknown): string {
  return `auto-${digestOf(JSON.stringify([origin, beginning]))}`;
}

/** Returns a digest of the messages up to message `fork`, without system prompts. */
function digestUpTo(messages: readonly ChatMessage[], fork: number): string {
  const firstMessages = messages.slice(0, fork + 1);
  return digestOf(JSON.stringify(firstMessages.filter(({ role }) => role !== "system" && role !== "developer")));
}
