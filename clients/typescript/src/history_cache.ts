/** The recorded part of each history, so that a client sends only new messages. */

import { createHash } from "node:crypto";

const MAX_HISTORIES = 1024;

/** The first `messages` of a history are recorded. `digest` is the service's digest of them. */
export interface RecordedPart {
  messages: number;
  fingerprint: string;
  digest: string;
}

export const NOTHING_RECORDED: RecordedPart = { messages: 0, fingerprint: "", digest: "" };

/** The recorded parts of the histories that were used last, without their texts. */
export class HistoryCache {
  readonly #recorded = new Map<string, RecordedPart>();

  /**
   * Returns the recorded part of a history and the fingerprint of all its messages. If the first
   * messages differ from the recorded ones, nothing counts as recorded.
   */
  compare(session: string, messages: readonly unknown[]): [RecordedPart, string] {
    const recorded = this.#recorded.get(session) ?? NOTHING_RECORDED;
    const [firstFingerprint, fingerprint] = fingerprints(messages, recorded.messages);
    const isUnchanged = firstFingerprint === recorded.fingerprint;
    return [isUnchanged ? recorded : NOTHING_RECORDED, fingerprint];
  }

  /** Stores the recorded part of a history, and removes the least recently used histories. */
  remember(session: string, recorded: RecordedPart): void {
    this.#recorded.delete(session);
    this.#recorded.set(session, recorded);
    for (const oldest of this.#recorded.keys()) {
      if (this.#recorded.size <= MAX_HISTORIES) break;
      this.#recorded.delete(oldest);
    }
  }

  forget(session: string): void {
    this.#recorded.delete(session);
  }
}

/** Returns the hashes of the first `count` messages (empty if there are fewer) and of all. */
function fingerprints(messages: readonly unknown[], count: number): [string, string] {
  const hash = createHash("sha256");
  let first = "";
  for (const [index, message] of messages.entries()) {
    hash.update(`${JSON.stringify(message)}\n`);
    if (index === count - 1) first = hash.copy().digest("hex");
  }
  return [first, hash.digest("hex")];
}
