/**
 * The messages of the Vercel AI SDK, in its model calls and in its steps.
 *
 * A call that a person approves or that the provider runs is always sent, with its result, because
 * other parts of the prompt refer to it.
 */

import { callOf, resultOf, type ChatCall, type ChatMessage, type Transcript } from "../chat.js";
import { plainContent, shapeOf, withText } from "../contents.js";
import type { Plan } from "../plan.js";
import { shownParts } from "../reasoning.js";
import { moveDetails, signFirst } from "../signatures.js";

export interface PromptMessage {
  role: string;
  content: string | readonly object[];
}

interface Part {
  type?: string;
  toolCallId?: string;
  toolName?: string;
  input?: unknown;
  output?: unknown;
  providerExecuted?: boolean;
}

interface Output {
  type?: string;
  value?: unknown;
  reason?: string;
}

/** The position of an item's canonical message, or of each of its results (null: not recorded). */
type Place = { message: number } | { results: (number | null)[] } | null;

const ROLES = ["system", "user", "assistant"];

/** Returns the transcript of a prompt. */
export function readPrompt<T extends PromptMessage>(items: readonly T[]): Transcript<T> {
  return new PromptTranscript(items);
}

/** Returns the name of a model, which is given as the SDK's model or as `provider/name`. */
export function modelId(model: unknown): string | undefined {
  if (typeof model === "string") return model.split("/").at(-1);
  return (model as { modelId?: string } | undefined)?.modelId;
}

class PromptTranscript<T extends PromptMessage> implements Transcript<T> {
  readonly messages: ChatMessage[] = [];
  readonly #items: readonly T[];
  readonly #places: Place[];

  constructor(items: readonly T[]) {
    this.#items = items;
    const alwaysSentIds = new Set(items.flatMap((item) => partsOf(item).flatMap(alwaysSentCallIds)));
    this.#places = items.map((item) => this.#read(item, alwaysSentIds));
  }

  apply(plan: Plan): T[] {
    return this.#items.flatMap((item, index) => {
      const place = this.#places[index];
      if (!place) return [item];
      if ("message" in place) return shownMessage(item, place.message, plan);
      const content = shownResults(item, place.results, plan);
      if (content === item.content) return [item];
      return content.length ? [{ ...item, content }] : [];
    });
  }

  /** Reads an item into canonical messages. `alwaysSentIds` are the ids of calls that stay. */
  #read(item: T, alwaysSentIds: ReadonlySet<string>): Place {
    if (item.role === "tool") {
      return { results: partsOf(item).map((part) => this.#readResult(part, alwaysSentIds)) };
    }
    if (!ROLES.includes(item.role)) return null;
    const message: ChatMessage = { role: item.role, content: plainContent(item.content) };
    if (item.role === "assistant") {
      const parts = partsOf(item);
      const calls = parts.filter(isCall).map(recordedCall);
      if (typeof item.content !== "string") {
        const texts = parts.filter((part) => part.type === "text");
        message.content = texts.length ? plainContent(texts) : null;
      }
      if (calls.length) message.tool_calls = calls;
    }
    return { message: this.messages.push(message) - 1 };
  }

  /** Reads a result and returns its position; null for another part or a result that is always sent. */
  #readResult(part: Part, alwaysSentIds: ReadonlySet<string>): number | null {
    const id = part.type === "tool-result" ? part.toolCallId : undefined;
    if (!id || alwaysSentIds.has(id)) return null;
    return this.messages.push(resultOf(id, contentOf(part.output as Output))) - 1;
  }
}

function partsOf(item: PromptMessage): readonly Part[] {
  return typeof item.content === "string" ? [] : (item.content as readonly Part[]);
}

function isCall(part: Part): boolean {
  return part.type === "tool-call";
}

function recordedCall(part: Part): ChatCall {
  return callOf(String(part.toolCallId), String(part.toolName), part.input);
}

/** Returns the id of the call that is always sent because of this part, if there is one. */
function alwaysSentCallIds(part: Part): string[] {
  const isAlwaysSent = part.type === "tool-approval-request" || part.providerExecuted;
  return isAlwaysSent && part.toolCallId ? [part.toolCallId] : [];
}

function contentOf(output: Output | undefined): unknown {
  const { type, value, reason } = output ?? {};
  if (type === "execution-denied") return reason ?? "denied";
  if (typeof value === "string" || type === "content") return value;
  return shapeOf(value);
}

/** Returns the message with the parts that the plan shows; no message if it shows none. */
function shownMessage<T extends PromptMessage>(item: T, message: number, plan: Plan): T[] {
  const parts = partsOf(item);
  const calls = item.role === "assistant" ? parts.filter(isCall) : [];
  const { isShown, shownCalls, substituteArguments, text, isUnchanged } = plan.partsOf(message, calls.length);
  if (isUnchanged) return [item];
  if (!isShown && !shownCalls.length) return [];
  // The substitute arguments of each shown call; null for its own.
  const argumentsOf = new Map(shownCalls.map((call, index) => [calls[call], substituteArguments[index] ?? null]));
  const omittedBefore = calls.slice(0, shownCalls[0] ?? 0);
  const first = calls[shownCalls[0] ?? -1];
  const omittedIds = calls.filter((call) => !argumentsOf.has(call)).map(({ toolCallId }) => toolCallId);
  const showCall = (call: Part): Part | null => {
    const substitute = argumentsOf.get(call);
    if (substitute === undefined) return null;
    const signed = call === first ? signFirst(call, omittedBefore) : call;
    const shown = moveDetails(signed, omittedIds, first?.toolCallId);
    return substitute === null ? shown : { ...shown, input: JSON.parse(substitute) as unknown };
  };
  const isReasoning = ({ type }: Part) => type === "reasoning" || type === "reasoning-file";
  const content =
    typeof item.content === "string"
      ? withText(item.content, text ?? item.content)
      : shownParts(parts, text, isReasoning, (part) => (isCall(part) ? showCall(part) : part));
  const shown = moveDetails(item, omittedIds, first?.toolCallId);
  return (content as unknown[]).length ? [{ ...shown, content: content as object[] }] : [];
}

/** Returns the content of a message of results with the results that the plan shows. */
function shownResults(
  item: PromptMessage,
  results: readonly (number | null)[],
  plan: Plan,
): PromptMessage["content"] {
  const parts = partsOf(item);
  const shown = parts.flatMap((part, index) => {
    const position = results[index] ?? null;
    if (position === null) return [part];
    if (!plan.shows(position)) return [];
    const text = plan.text(position);
    return [text === null ? part : { ...part, output: withOutput(part.output as Output, text) }];
  });
  const isUnchanged = shown.length === parts.length && shown.every((part, i) => part === parts[i]);
  return isUnchanged ? item.content : shown;
}

function withOutput(output: Output, text: string): Output {
  if (output.type === "content") return { ...output, value: withText(output.value, text) };
  const type = output.type?.startsWith("error") ? "error-text" : "text";
  return { type, value: text };
}
