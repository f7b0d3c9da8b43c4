/** What the service has of each history, so that a client sends only what is new. */

import { createHash } from "node:crypto";

const REMEMBERED = 1024;

/** The first `messages` of a history are recorded; `digest` is the service's for them. */
export interface Known {
  messages: number;
  fingerprint: string;
  digest: string;
}

export const NOTHING: Known = { messages: 0, fingerprint: "", digest: "" };

/** The recorded part of the histories used last, without their texts. */
export class Sent {
  readonly #known = new Map<string, Known>();

  /**
   * What is recorded of a history that now is `messages`, and their fingerprint. Nothing is when
   * its past differs.
   */
  compare(session: string, messages: readonly unknown[]): [Known, string] {
    const known = this.#known.get(session) ?? NOTHING;
    const [before, now] = fingerprints(messages, known.messages);
    return [before === known.fingerprint ? known : NOTHING, now];
  }

  /** A call recorded that much; the least recently used histories are forgotten. */
  remember(session: string, known: Known): void {
    this.#known.delete(session);
    this.#known.set(session, known);
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= REMEMBERED) break;
      this.#known.delete(oldest);
    }
  }

  forget(session: string): void {
    this.#known.delete(session);
  }
}

/** Hashes of the first messages (empty for none, or too few), and of all of them. */
function fingerprints(messages: readonly unknown[], first: number): [string, string] {
  const hash = createHash("sha256");
  let before = "";
  for (const [index, message] of messages.entries()) {
    hash.update(`${JSON.stringify(message)}\n`);
    if (index === first - 1) before = hash.copy().digest("hex");
  }
  return [before, hash.digest("hex")];
}
