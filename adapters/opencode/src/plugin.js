/**
 * opencode's plugin: before each model call, the messages become those that fit the budget.
 *
 * opencode's own storage keeps every message. The session is opencode's; a subagent's is its own.
 */

import { ContextRender } from "@contextrender/client";

import { Transcript } from "./transcript.js";

const DEADLINE = 2;

/**
 * @typedef {import("./transcript.js").Item} Item
 *
 * @typedef {object} Options
 * @property {number} [budget] Tokens of history; the session's unless given.
 * @property {string} [policy] A policy's name; the session's unless given.
 * @property {Record<string, number>} [parameters] Numbers of the policy's.
 * @property {number} [deadline] In seconds.
 * @property {string} [url] The service's address.
 * @property {string} [token]
 *
 * @typedef {object} Log
 * @property {(entry: { body: { service: string, level: "warn", message: string } }) =>
 *   Promise<unknown>} log
 */

/**
 * @param {{ client: { app: Log } }} input
 * @param {Options} [options]
 */
async function server(input, options = {}) {
  const seconds = Number(options.deadline ?? process.env.CONTEXTRENDER_DEADLINE ?? DEADLINE);
  const settings = {
    budget: /** @type {number | undefined} */ (
      numberOf(options.budget ?? process.env.CONTEXTRENDER_BUDGET)
    ),
    policy: options.policy || process.env.CONTEXTRENDER_POLICY || undefined,
    parameters: options.parameters,
    deadline: 1000 * seconds,
  };
  const { url, token } = options;
  const client = new ContextRender({ url, token, log });
  /** The sessions whose next messages opencode is about to summarize. */
  const compacting = new Set();

  /** @param {Item[]} items */
  async function fit(items) {
    const session = items[0]?.info.sessionID;
    if (!session || compacting.delete(session)) return;
    const asked = { ...settings, model: modelOf(items) };
    const { messages, changed } = await client.fit(session, items, asked, new Transcript(items));
    if (changed) items.splice(0, items.length, ...messages);
  }

  /** @param {string} message opencode's log is not waited for. */
  function log(message) {
    const entry = { service: "contextrender", level: /** @type {const} */ ("warn"), message };
    Promise.resolve()
      .then(() => input.client.app.log({ body: entry }))
      .catch(() => console.error(`contextrender: ${message}`));
  }

  return {
    /** @param {{}} _ @param {{ messages: Item[] }} output */
    async "experimental.chat.messages.transform"(_, output) {
      try {
        await fit(output.messages);
      } catch (failure) {
        // opencode ends the run when a hook throws.
        client.failed(failure instanceof Error ? failure.name : "unknown");
      }
    },
    /** @param {{ sessionID: string }} about */
    async "experimental.session.compacting"(about) {
      compacting.add(about.sessionID);
    },
  };
}

/** @param {Item[]} items */
function modelOf(items) {
  const info = items.findLast((item) => item.info.role === "user")?.info;
  return info?.role === "user" ? info.model?.modelID : undefined;
}

/**
 * A number, also one that is written as a text; the service refuses what is none.
 *
 * @param {unknown} value
 */
function numberOf(value) {
  if (value === undefined || value === "") return undefined;
  return Number.isNaN(Number(value)) ? value : Number(value);
}

// With the name opencode calls just this function; without it, it would call every export.
export default { id: "contextrender", server };
