/** ContextRender's service: sends what is new of a history, and gets the plan of what to show. */

import { createHash } from "node:crypto";

import { credentials } from "./credentials.js";
import { ServiceError } from "./errors.js";

/**
 * @typedef {import("./transcript.js").ChatMessage} ChatMessage
 * @typedef {import("./transcript.js").PlanItem} PlanItem
 *
 * @typedef {object} Reply
 * @property {string} digest
 * @property {PlanItem[]} plan
 * @property {unknown[]} omitted
 * @property {unknown[]} replaced
 * @property {unknown[]} left_turns
 * @property {unknown[]} shortened
 *
 * @typedef {object} Known The first `messages` of a history are recorded.
 * @property {number} messages
 * @property {string} fingerprint
 * @property {string} digest The service's, for them.
 */

/** @type {Known} */
const NOTHING = { messages: 0, fingerprint: "", digest: "" };

export class Service {
  /** @type {Map<string, Known>} */
  #known = new Map();
  #given;

  /** @param {{ url?: string, token?: string }} given */
  constructor(given) {
    this.#given = given;
  }

  /**
   * What to show of a session's history. Throws a ServiceError.
   *
   * @param {string} session
   * @param {ChatMessage[]} messages The whole history.
   * @param {Record<string, unknown>} settings
   * @param {number} deadline In milliseconds.
   * @returns {Promise<Reply>}
   */
  async render(session, messages, settings, deadline) {
    const signal = AbortSignal.timeout(deadline);
    const last = this.#known.get(session) ?? NOTHING;
    const isSame = fingerprint(messages.slice(0, last.messages)) === last.fingerprint;
    const known = isSame ? last : NOTHING;
    const fields = { session, ...settings, want: "plan", early: true };
    let reply;
    try {
      reply = await this.#post(fields, messages, known, signal);
    } catch (error) {
      const diverged = error instanceof ServiceError && error.code === "history_diverged";
      if (!diverged || !known.messages) throw error;
      reply = await this.#post(fields, messages, NOTHING, signal);
    }
    this.#known.set(session, {
      messages: messages.length,
      fingerprint: fingerprint(messages),
      digest: reply.digest,
    });
    return reply;
  }

  /**
   * @param {Record<string, unknown>} fields
   * @param {ChatMessage[]} messages
   * @param {Known} known
   * @param {AbortSignal} signal
   * @returns {Promise<Reply>}
   */
  async #post(fields, messages, known, signal) {
    // Read each time: the server may have been started, or given a new token, in the meantime.
    const { url, token } = await credentials(this.#given);
    const place = { offset: known.messages, prefix: known.digest };
    let status;
    let body;
    try {
      const response = await fetch(`${url}/walker/render`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify({ ...fields, ...place, messages: messages.slice(known.messages) }),
        redirect: "error",
        signal,
      });
      status = response.status;
      body = await response.text();
    } catch {
      throw new ServiceError(signal.aborted ? "late" : "unreachable");
    }
    return replyOf(status, body);
  }
}

/**
 * @param {number} status
 * @param {string} body
 * @returns {Reply}
 */
function replyOf(status, body) {
  let answer;
  try {
    answer = JSON.parse(body);
  } catch {
    // Not the service's: what else answers there need not be JSON.
  }
  const reply = answer?.reports?.[0];
  if (status === 200 && Array.isArray(reply?.plan)) return reply;
  const code = answer?.error?.code;
  throw new ServiceError(/^\w+$/.test(code ?? "") ? code : "unexpected_reply");
}

/** @param {ChatMessage[]} messages */
function fingerprint(messages) {
  if (!messages.length) return "";
  const hash = createHash("sha256");
  for (const message of messages) hash.update(`${JSON.stringify(message)}\n`);
  return hash.digest("hex");
}
