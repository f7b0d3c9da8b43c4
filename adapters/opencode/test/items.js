/** opencode's messages and parts, as its hook gives them. */

/** @typedef {import("../src/transcript.js").Item} Item */

const SESSION = "ses_test";
let made = 0;

/** @param {string} prefix */
function named(prefix) {
  made += 1;
  return `${prefix}_${String(made).padStart(6, "0")}`;
}

/** @param {any[]} parts @param {string} session @returns {Item} */
export function user(parts, session = SESSION) {
  const model = { providerID: "local", modelID: "gpt-4o" };
  const id = named("msg");
  const time = { created: made };
  return { info: { id, sessionID: session, role: "user", time, agent: "build", model }, parts };
}

/** @param {any[]} parts @param {object} also @param {string} session @returns {Item} */
export function assistant(parts, also = {}, session = SESSION) {
  const info = { id: named("msg"), sessionID: session, role: "assistant", ...also };
  return { info: /** @type {any} */ (info), parts };
}

/** @param {string} name */
export function failed(name) {
  return { error: { name, data: { message: "" } } };
}

/** @param {string} said @param {object} also @returns {any} */
export function text(said, also = {}) {
  return part({ type: "text", text: said, ...also });
}

/** @returns {any} */
export function compacted() {
  return part({ type: "compaction", auto: false });
}

/** @param {string} mime @returns {any} */
export function file(mime) {
  return part({ type: "file", mime, url: `data:${mime};base64,AA` });
}

/**
 * @param {string} name
 * @param {object} input
 * @param {string} output
 * @param {object} state
 * @returns {any}
 */
export function tool(name, input, output, state = {}) {
  const time = { start: 1, end: 2 };
  const done = { status: "completed", input, output, title: "", metadata: {}, time };
  return part({ type: "tool", callID: "call_0", tool: name, state: { ...done, ...state } });
}

/** @param {object} fields */
function part(fields) {
  return { id: named("prt"), sessionID: SESSION, messageID: "msg", ...fields };
}

/** @param {number} count */
export function numbers(count) {
  return [...Array(count).keys()];
}

/** @param {number} seed A small generator, so that a failure can be repeated. */
export function random(seed) {
  let state = seed + 1;
  const next = () => {
    state = (state * 48271) % 2147483647;
    return state / 2147483647;
  };
  next();
  next();
  return next;
}
