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
 * @typedef {string | string[]} Names A list, or a text with commas.
 *
 * @typedef {object} Options
 * @property {number} [budget] Tokens of history; the session's unless given.
 * @property {string} [policy] A policy's name; the session's unless given.
 * @property {Record<string, number>} [parameters] Numbers of the policy's.
 * @property {Names} [keep_tools] Tools (names, globs) whose results stay in view while they fit.
 * @property {Names} [keep] Calls whose results do, by their parts' ids.
 * @property {Names} [bypass_tools] Tools (names, globs) whose results are never touched.
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
    keep_tools: namesOf(options.keep_tools ?? process.env.CONTEXTRENDER_KEEP_TOOLS),
    keep: namesOf(options.keep),
    bypass_tools: namesOf(options.bypass_tools ?? process.env.CONTEXTRENDER_BYPASS_TOOLS),
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

/**
 * A list, also one that is written as a text with commas; the service refuses what is none.
 *
 * @param {Names | undefined} names
 */
function namesOf(names) {
  if (typeof names !== "string") return names;
  const listed = names.split(",").map((name) => name.trim());
  return listed.filter(Boolean);
}

// With the name opencode calls just this function; without it, it would call every export.
export default { id: "contextrender", server };
