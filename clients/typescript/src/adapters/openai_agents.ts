/**
 * OpenAI Agents SDK for JavaScript: a filter that fits each model call's input into a budget.
 *
 *     new Runner({ callModelInputFilter: contextRenderFilter({ session }) })
 *
 * The SDK's own session keeps every item.
 */

import { withText } from "../contents.js";
import { callOf, resultOf } from "../chat.js";
import { RunTranscript, type ItemFormat } from "../runs.js";
import { Fitter, type AdapterOptions } from "./fitter.js";

/** What is read of the SDK's items. */
interface Item {
  type?: string;
  role?: string;
  content?: unknown;
  callId?: string;
  name?: string;
  arguments?: string;
  output?: unknown;
}

interface ModelData<I> {
  input: I[];
  instructions?: string;
}

export interface FilterOptions extends Omit<AdapterOptions, "session"> {
  /** The SDK's, or a name: it tells a filter of none. */
  session?: string | { getSessionId(): Promise<string> };
}

/** What `callModelInputFilter` takes. */
export function contextRenderFilter({ session, ...options }: FilterOptions = {}) {
  const fitter = new Fitter(options);
  async function filter<I extends object>(asked: {
    modelData: ModelData<I>;
  }): Promise<ModelData<I>> {
    // Not before: a session that is stored elsewhere gets its id there.
    const name = typeof session === "object" ? await session.getSessionId() : session;
    const read = (items: readonly I[]) => new RunTranscript<I>(items, FORMAT as ItemFormat<I>);
    const input = await fitter.fit(asked.modelData.input, read, { session: name });
    return { ...asked.modelData, input };
  }
  // It changes no item, so that the SDK need not copy them.
  return Object.assign(filter, { preserveInputIdentity: true });
}

const FORMAT: ItemFormat<Item> = {
  kindOf({ type = "message", role = "", callId, content }) {
    if (type === "reasoning") return "reasoning";
    if (type === "function_call") return callId ? "call" : "other";
    if (type === "function_call_result") return callId ? "result" : "other";
    const isContent = typeof content === "string" || Array.isArray(content);
    if (type !== "message" || !isContent) return "other";
    if (role === "assistant") return "spoken";
    return role === "user" || role === "system" ? "input" : "other";
  },
  call: (item) => callOf(String(item.callId), String(item.name), item.arguments ?? ""),
  result: ({ callId = "", output }) => resultOf(callId, outputOf(output)),
  withArguments: (item, told) => ({ ...item, arguments: told }),
  withOutput: (item, text) => ({ ...item, output: outputWith(item.output, text) }),
};

/** An output is a text, one part, or several. */
function outputOf(output: unknown): unknown {
  return output && typeof output === "object" && !Array.isArray(output) ? [output] : output;
}

function outputWith(output: unknown, text: string): unknown {
  if (typeof output === "string") return text;
  if (Array.isArray(output)) return withText(output, text, "input_text");
  return { type: "text", text };
}
