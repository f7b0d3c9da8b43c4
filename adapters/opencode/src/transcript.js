/**
 * opencode's messages as chat messages, and what is left of them under the service's plan.
 *
 * One completed or failed tool part is a call and its result, so no half of a pair can be left.
 * opencode says what of its parts a model sees; what it does not show is not recorded.
 * Long because reading the parts and putting the plan back must treat each alike.
 */

import { createHash } from "node:crypto";

/**
 * @typedef {import("@opencode-ai/sdk").Part} Part
 * @typedef {import("@opencode-ai/sdk").ToolPart} ToolPart
 * @typedef {import("@opencode-ai/sdk").FilePart} FilePart
 * @typedef {import("@opencode-ai/sdk").Message} Info
 * @typedef {{ info: Info, parts: Part[] }} Item A message of opencode's.
 *
 * @typedef {import("@contextrender/client").ChatCall} Call
 * @typedef {import("@contextrender/client").ChatMessage} ChatMessage
 * @typedef {import("@contextrender/client").Content} Content
 * @typedef {import("@contextrender/client").ContentPart} ContentPart
 * @typedef {import("@contextrender/client").Plan} Plan
 * @typedef {import("@contextrender/client").Transcript<Item>} ReadItems
 *
 * @typedef {object} Place Where a message of opencode's is among the chat messages.
 * @property {number} position
 * @property {(number | null)[]} results The positions of its calls' results.
 */

const REMINDER = "<system-reminder>";
/** What opencode tells the model in place of such parts. */
const SPOKEN = new Map([
  ["compaction", "What did we do so far?"],
  ["subtask", "The following tool was executed by the user"],
]);
/** Parts of a user's message that opencode has read into text parts already. */
const READ_ALREADY = ["text/plain", "application/x-directory"];

/** @implements {ReadItems} */
export class Transcript {
  /** @type {ChatMessage[]} */
  messages = [];
  #items;
  #places;

  /** @param {Item[]} items */
  constructor(items) {
    this.#items = items;
    this.#places = items.map((item) => this.#read(item));
  }

  /**
   * The messages that are shown: copies where something of them is left out, else the originals.
   *
   * @param {Plan} plan
   * @returns {Item[]}
   */
  apply(plan) {
    return this.#items.flatMap((item, index) => {
      const place = this.#places[index];
      return place ? leftOf(item, place, plan) : [item];
    });
  }

  /**
   * @param {Item} item
   * @returns {Place | null} Null: not recorded, and always shown.
   */
  #read(item) {
    if (isUnseen(item)) return null;
    const { info, parts } = item;
    const texts = parts.map((part) => textOf(part, info)).filter((text) => text !== null);
    const files = parts.filter((part) => part.type === "file" && isMedia(part, info));
    const tools = parts.filter((part) => part.type === "tool");
    if (!texts.length && !files.length && !tools.length) return null;
    const position = this.messages.length;
    const content = contentOf(texts, /** @type {FilePart[]} */ (files));
    const calls = tools.length ? { tool_calls: tools.map(callOf) } : {};
    this.messages.push({ role: info.role, content, ...calls });
    return { position, results: tools.map((part) => this.#readResult(part)) };
  }

  /** @param {ToolPart} part */
  #readResult(part) {
    const content = resultOf(part);
    if (content === null) return null;
    this.messages.push({ role: "tool", tool_call_id: part.id, content });
    return this.messages.length - 1;
  }
}

/**
 * Failed messages are not sent to a model, but for what one had said before it was stopped.
 *
 * @param {Item} item
 */
function isUnseen({ info, parts }) {
  if (info.role !== "assistant" || !info.error) return false;
  const said = parts.some((part) => part.type !== "step-start" && part.type !== "reasoning");
  return info.error.name !== "MessageAbortedError" || !said;
}

/**
 * The text that a part is in the history, if it is one.
 *
 * @param {Part} part
 * @param {Info} info
 * @returns {string | null}
 */
function textOf(part, info) {
  if (part.type !== "text") return info.role === "user" ? (SPOKEN.get(part.type) ?? null) : null;
  if (!part.text || (info.role === "user" && part.ignored)) return null;
  // Added to the user's newest message in each call, and never stored.
  return part.synthetic && part.text.trimStart().startsWith(REMINDER) ? null : part.text;
}

/**
 * @param {FilePart} part
 * @param {Info} info
 */
function isMedia(part, info) {
  return info.role === "user" && !READ_ALREADY.includes(part.mime);
}

/** @param {ToolPart} part @returns {Call} */
function callOf(part) {
  const written = JSON.stringify(part.state.input ?? {});
  // The part's own id: a provider may repeat the call's.
  return { id: part.id, type: "function", function: { name: part.tool, arguments: written } };
}

/**
 * A call's result; null where there is none, or none that may be taken out: such a call stays.
 *
 * @param {ToolPart} part
 * @returns {Content}
 */
function resultOf(part) {
  const { state } = part;
  if (part.metadata?.providerExecuted) return null;
  if (state.status === "completed" && typeof state.output === "string") {
    return contentOf([state.output], state.attachments ?? []);
  }
  if (state.status !== "error") return null;
  const text = isInterrupted(state) ? state.metadata?.output : state.error;
  return typeof text === "string" ? contentOf([text], []) : null;
}

/**
 * Whether what the tool had written so far is shown as its output.
 *
 * @param {import("@opencode-ai/sdk").ToolStateError} state
 */
function isInterrupted({ metadata }) {
  return metadata?.interrupted === true && typeof metadata.output === "string";
}

/**
 * @param {string[]} texts
 * @param {FilePart[]} files
 * @returns {Content}
 */
function contentOf(texts, files) {
  const text = texts.join("\n").toWellFormed();
  if (!files.length) return texts.length ? text : null;
  /** @type {ContentPart[]} */
  const own = text ? [{ type: "text", text }] : [];
  return [...own, ...files.map(digestOf)];
}

/** @param {FilePart} part @returns {ContentPart} Media by their digest: contents stay here. */
function digestOf(part) {
  const hash = createHash("sha256").update(`${part.mime}\n${part.filename ?? ""}\n${part.url}`);
  const type = part.mime.startsWith("image/") ? "image" : "file";
  return { type, digest: hash.digest("hex").slice(0, 32) };
}

/**
 * @param {Item} item
 * @param {Place} place
 * @param {Plan} plan
 * @returns {Item[]} One, or none.
 */
function leftOf(item, place, plan) {
  const { info, parts } = item;
  const isShown = plan.shows(place.position);
  /** What is yet to be said in place of the message's own text; null: its own. */
  let said = isShown ? plan.text(place.position) : "";
  let call = -1;
  const left = parts.map((part) => {
    if (part.type === "tool") {
      call += 1;
      const result = place.results[call] ?? null;
      if (result === null) return part;
      if (!plan.showsCall(place.position, call)) return null;
      const asked = withInput(part, plan.arguments(place.position, call));
      return withResult(asked, plan.text(result));
    }
    if (said === null || textOf(part, info) === null) return part;
    const text = said;
    said = "";
    return text ? textPart(part.id, info, text) : null;
  });
  const hasTool = left.some((part) => part?.type === "tool");
  if (!isShown && !hasTool) return [];
  if (!said && left.every((part, index) => part === parts[index])) return [item];
  const kept = withoutIdleReasoning(parts, left);
  if (said) {
    const first = kept.findIndex((part) => part.type === "tool");
    kept.splice(first < 0 ? kept.length : first, 0, textPart(info.id, info, said));
  }
  return kept.some(isContent) ? [{ ...item, parts: kept }] : [];
}

/**
 * The part, or a copy whose call has these arguments, as JSON.
 *
 * @param {ToolPart} part
 * @param {string | null} told
 * @returns {ToolPart}
 */
function withInput(part, told) {
  if (told === null) return part;
  return /** @type {ToolPart} */ ({ ...part, state: { ...part.state, input: JSON.parse(told) } });
}

/**
 * The part, or a copy with a text in its result's place.
 *
 * @param {ToolPart} part
 * @param {string | null | undefined} text
 * @returns {ToolPart}
 */
function withResult(part, text) {
  const { state } = part;
  if (text === null || text === undefined) return part;
  if (state.status === "completed") return { ...part, state: { ...state, output: text } };
  if (state.status !== "error") return part;
  if (!isInterrupted(state)) return { ...part, state: { ...state, error: text } };
  return { ...part, state: { ...state, metadata: { ...state.metadata, output: text } } };
}

/**
 * A text of this message, without the provider's name for another one.
 *
 * @param {string} id
 * @param {Info} info
 * @param {string} text
 * @returns {Part}
 */
function textPart(id, info, text) {
  return { id, sessionID: info.sessionID, messageID: info.id, type: "text", text };
}

/**
 * What is left of the parts; reasoning stays while anything it led to does.
 *
 * @param {Part[]} parts
 * @param {(Part | null)[]} left
 * @returns {Part[]}
 */
function withoutIdleReasoning(parts, left) {
  let stays = true;
  let isNew = true;
  const kept = parts.map((_, index) => left[index] ?? null);
  for (let index = parts.length - 1; index >= 0; index--) {
    const part = /** @type {Part} */ (parts[index]);
    if (part.type === "reasoning") {
      if (!stays) kept[index] = null;
      isNew = true;
    } else if (isContent(part)) {
      stays = (!isNew && stays) || kept[index] !== null;
      isNew = false;
    }
  }
  return kept.filter((part) => part !== null);
}

/** @param {Part} part Whether a part is more than a mark of where a step begins or ends. */
function isContent(part) {
  return ["text", "tool", "file"].includes(part.type) || SPOKEN.has(part.type);
}
