/** OpenAI Responses: `instructions`, and `input` items with calls and outputs of their own. */

import { callOf, resultOf, type ChatCall, type ChatMessage, type Transcript } from "./chat.js";
import { historyEnd, isVolatile, withText } from "../contents.js";
import type { Plan } from "../plan.js";
import { RunTranscript, type ItemFormat, type Kind } from "./runs.js";

type Item = Record<string, unknown>;

const SHELLS = new Map([
  ["local_shell_call", "action"],
  ["shell_call", "action"],
  ["apply_patch_call", "operation"],
]);
const CALLS = new Map([
  ["function_call", "arguments"],
  ["custom_tool_call", "input"],
]);
const OUTPUTS = [...CALLS.keys(), ...SHELLS.keys()].map((kind) => `${kind}_output`);
/** Tools that the provider runs: call and result are one item, its result in this field. */
const SERVED = new Map([
  ["mcp_call", "output"],
  ["code_interpreter_call", "outputs"],
  ["file_search_call", "results"],
]);
const ROLES = ["system", "developer", "user", "assistant"];

/** The history of a request: its `input`; `instructions` are recorded before it. */
export function responsesTranscript(request: Item, items: readonly unknown[]): Transcript<unknown> {
  const { instructions } = request;
  const isTold = typeof instructions === "string" && instructions;
  const before = isTold ? [{ role: "system", content: instructions.toWellFormed() }] : [];
  const end = historyEnd(items);
  const run = new RunTranscript(items.slice(0, end) as Item[], FORMAT, before);
  const apply = (plan: Plan) => [...run.apply(plan), ...items.slice(end)];
  return { messages: run.messages, apply };
}

const FORMAT: ItemFormat<Item> = {
  kindOf(item: Item): Kind {
    if (!item || typeof item !== "object" || isVolatile(item)) return "other";
    const { type: kind = "message", role, content } = item;
    if (typeof kind !== "string") return "other";
    if (kind === "reasoning") return "reasoning";
    if (kind === "message" && ROLES.includes(role as string)) {
      if (typeof content !== "string" && !Array.isArray(content)) return "other";
      return role === "assistant" ? "spoken" : "input";
    }
    const served = SERVED.get(kind);
    if (served) return isText(item["id"]) && (item[served] ?? null) !== null ? "served" : "other";
    if (!isText(idOf(item))) return "other";
    if (OUTPUTS.includes(kind)) return "result";
    const action = item[SHELLS.get(kind) ?? ""];
    if (SHELLS.has(kind)) return action && typeof action === "object" ? "call" : "other";
    const given = CALLS.get(kind);
    const isKnown = given && typeof item["name"] === "string" && typeof item[given] === "string";
    return isKnown ? "call" : "other";
  },

  call(item: Item): ChatCall {
    const kind = String(item["type"]);
    const shell = SHELLS.get(kind);
    if (shell) return callOf(idOf(item), kind.replace(/_call$/, ""), item[shell]);
    if (SERVED.has(kind)) {
      const left = ["type", "id", ...SERVED.values()];
      const asked = Object.entries(item).filter(([key]) => !left.includes(key));
      const name = typeof item["name"] === "string" ? item["name"] : kind;
      return callOf(String(item["id"]), name, Object.fromEntries(asked));
    }
    const [name, input] = [String(item["name"]), String(item[CALLS.get(kind) ?? ""])];
    if (kind === "function_call") return callOf(idOf(item), name, input);
    const custom = { name: name.toWellFormed(), input: input.toWellFormed() };
    return { id: idOf(item).toWellFormed(), type: "custom", custom };
  },

  result(item: Item): ChatMessage {
    const served = SERVED.get(String(item["type"]));
    return served ? resultOf(String(item["id"]), item[served]) : resultOf(idOf(item), item["output"]);
  },

  withArguments(item: Item, told: string): Item {
    // What a shell was asked, the provider takes back only as it was.
    const given = CALLS.get(String(item["type"]));
    return given ? { ...item, [given]: told } : item;
  },

  withOutput(item: Item, text: string): Item {
    const { type, output } = item;
    if (SERVED.has(String(type))) return type === "mcp_call" ? { ...item, output: text } : item;
    if (type !== "shell_call_output" || !Array.isArray(output)) {
      return { ...item, output: withText(output, text, "input_text") };
    }
    return { ...item, output: [{ ...(output[0] as object), stdout: text, stderr: "" }] };
  },
};

/** Outputs of local shells name their call by `id`. */
function idOf({ type, call_id: id, id: own }: Item): string {
  return (id || (type === "local_shell_call_output" && own)) as string;
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}
