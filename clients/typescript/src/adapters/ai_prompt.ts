/**
 * The messages of the Vercel AI SDK, as its model calls have them, and those it hands a step.
 *
 * A call that is approved by a person, or run by the provider, always stays, and so does its
 * result: what belongs to it is spread over other parts.
 */

import { callOf, resultOf, type ChatCall, type ChatMessage, type Transcript } from "../chat.js";
import { plainContent, shapeOf, withText } from "../contents.js";
import type { Plan } from "../plan.js";

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

/** The message that an item is, and of the results in it where each is recorded. */
type Place = { own: number } | { results: (number | null)[] } | null;

const ROLES = ["system", "user", "assistant"];

export class PromptTranscript<T extends PromptMessage> implements Transcript<T> {
  readonly messages: ChatMessage[] = [];
  readonly #items: readonly T[];
  readonly #places: Place[];

  constructor(items: readonly T[]) {
    this.#items = items;
    const held = new Set(items.flatMap((item) => partsOf(item).flatMap(heldBy)));
    this.#places = items.map((item) => this.#read(item, held));
  }

  apply(plan: Plan): T[] {
    return this.#items.flatMap((item, index) => {
      const place = this.#places[index];
      if (!place) return [item];
      const content =
        "own" in place ? ownLeft(item, place.own, plan) : resultsLeft(item, place.results, plan);
      if (content === item.content) return [item];
      return content.length ? [{ ...item, content }] : [];
    });
  }

  #read(item: T, held: ReadonlySet<string>): Place {
    if (item.role === "tool") {
      return { results: partsOf(item).map((part) => this.#readResult(part, held)) };
    }
    if (!ROLES.includes(item.role)) return null;
    const message: ChatMessage = { role: item.role, content: plainContent(item.content) };
    if (item.role === "assistant") {
      const parts = partsOf(item);
      const calls = parts.filter(isCall).map(recorded);
      if (typeof item.content !== "string") {
        const texts = parts.filter((part) => part.type === "text");
        message.content = texts.length ? plainContent(texts) : null;
      }
      if (calls.length) message.tool_calls = calls;
    }
    return { own: this.messages.push(message) - 1 };
  }

  #readResult(part: Part, held: ReadonlySet<string>): number | null {
    const id = part.type === "tool-result" ? part.toolCallId : undefined;
    if (!id || held.has(id)) return null;
    return this.messages.push(resultOf(id, contentOf(part.output as Output))) - 1;
  }
}

function partsOf(item: PromptMessage): readonly Part[] {
  return typeof item.content === "string" ? [] : (item.content as readonly Part[]);
}

function isCall(part: Part): boolean {
  return part.type === "tool-call";
}

function recorded(part: Part): ChatCall {
  return callOf(String(part.toolCallId), String(part.toolName), part.input);
}

function heldBy(part: Part): string[] {
  const isHeld = part.type === "tool-approval-request" || part.providerExecuted;
  return isHeld && part.toolCallId ? [part.toolCallId] : [];
}

function contentOf(output: Output | undefined): unknown {
  const { type, value, reason } = output ?? {};
  if (type === "execution-denied") return reason ?? "denied";
  if (typeof value === "string" || type === "content") return value;
  return shapeOf(value);
}

/** The content of a message of which something may leave; empty: nothing is left. */
function ownLeft(item: PromptMessage, own: number, plan: Plan): PromptMessage["content"] {
  const parts = partsOf(item);
  const calls = item.role === "assistant" ? parts.filter(isCall) : [];
  const { isShown, staying, told, text, isWhole } = plan.of(own, calls.length);
  if (isWhole) return item.content;
  if (!isShown && !staying.length) return [];
  const left = new Map(staying.map((call, at) => [calls[call], told[at] ?? null]));
  const kept = parts.flatMap((part) => {
    if (!isCall(part)) return [part];
    const cut = left.get(part);
    if (cut === undefined) return [];
    return [cut === null ? part : { ...part, input: JSON.parse(cut) as unknown }];
  });
  if (text === null) return kept;
  return withText(typeof item.content === "string" ? item.content : kept, text) as object[];
}

function resultsLeft(
  item: PromptMessage,
  results: readonly (number | null)[],
  plan: Plan,
): PromptMessage["content"] {
  const parts = partsOf(item);
  const left = parts.flatMap((part, index) => {
    const position = results[index] ?? null;
    if (position === null) return [part];
    if (!plan.shows(position)) return [];
    const text = plan.text(position);
    return [text === null ? part : { ...part, output: withOutput(part.output as Output, text) }];
  });
  const isWhole = left.length === parts.length && left.every((part, i) => part === parts[i]);
  return isWhole ? item.content : left;
}

function withOutput(output: Output, text: string): Output {
  if (output.type === "content") return { ...output, value: withText(output.value, text) };
  const type = output.type?.startsWith("error") ? "error-text" : "text";
  return { type, value: text };
}
