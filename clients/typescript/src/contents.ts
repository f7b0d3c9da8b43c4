/**
 * The contents of messages: the form that is recorded, and replacing their text.
 *
 * Media are recorded by their digest. Cache marks, which move from call to call, are not recorded,
 * so the recorded form of a message never changes.
 */

import { createHash } from "node:crypto";

/** A part of a content that is more than text. */
export type ContentPart =
  | { type: "text" | "other"; text: string }
  | { type: "image" | "audio" | "file"; digest: string };
export type Content = string | ContentPart[] | null;

type Part = Record<string, unknown>;

const TEXT = ["text", "input_text", "output_text", "text-plain"];
const MEDIA = new Map<unknown, "image" | "audio" | "file">([
  ["image", "image"],
  ["image_url", "image"],
  ["input_image", "image"],
  ["video_url", "image"],
  ["audio", "audio"],
  ["input_audio", "audio"],
  ["file", "file"],
  ["input_file", "file"],
  ["document", "file"],
  ["file-data", "file"],
  ["image-data", "image"],
  ["media", "file"],
]);
/** The beginning of OpenClaw's own context, which it inserts into each request. */
const VOLATILE = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>";
const NOT_RECORDED = ["cache_control", "annotations", "logprobs", "providerOptions", "providerData"];

/** Returns the content as it is recorded: a text if it has text alone, otherwise parts. */
export function plainContent(content: unknown): Content {
  if (content === null || content === undefined) return null;
  if (typeof content === "string") return content.toWellFormed();
  if (!Array.isArray(content)) return shapeOf(content);
  const parts = content.map(plainPart);
  const texts = parts.flatMap((part) => (part.type === "text" ? [part.text] : []));
  return texts.length === parts.length ? texts.join("\n") : parts;
}

/**
 * Returns the content with `text` instead of its own text. Parts without text stay.
 *
 * The first part with text gets `text`, and the others with text are removed. `type` is the type of
 * a new text part.
 */
export function withText(content: unknown, text: string, type = "text"): unknown {
  if (!Array.isArray(content)) return text;
  let needsText = Boolean(text);
  const parts = content.flatMap((part: unknown) => {
    if (!holdsText(part)) return [part];
    if (!needsText) return [];
    needsText = false;
    return [withPart(part, text, type)];
  });
  return needsText ? [{ type, text }, ...parts] : parts;
}

/** Returns whether a content part is only text. */
function isText(part: unknown): boolean {
  if (typeof part === "string") return true;
  const { type, text } = (part ?? {}) as Part;
  return TEXT.includes(type as string) && typeof text === "string";
}

/** Returns whether a content part is text, a text document or a search result. */
export function holdsText(part: unknown): boolean {
  return isText(part) || (part as Part | null)?.["type"] === "search_result" || isTextDocument(part);
}

/** Returns a part that holds text, with `text` instead of its own. */
function withPart(part: unknown, text: string, type = "text"): unknown {
  if (typeof part === "string") return text;
  return isText(part) ? { ...(part as Part), text } : { type, text };
}

/** Returns the number of items before the volatile ones at the end. */
export function historyEnd(items: readonly unknown[]): number {
  return items.findLastIndex((item) => !isVolatile(item)) + 1;
}

/** Returns whether a message is OpenClaw's own context, which it inserts into each request. */
function isVolatile(item: unknown): boolean {
  const { role, content } = (item ?? {}) as Part;
  const first: unknown = Array.isArray(content) ? content[0] : content;
  const text = typeof first === "string" ? first : (first as Part | null | undefined)?.["text"];
  return role === "user" && typeof text === "string" && text.trimStart().startsWith(VOLATILE);
}

/** Returns a value as JSON text. Bytes become their digest. */
export function shapeOf(value: unknown): string {
  const shape = JSON.stringify(value, (name, inner: unknown) => {
    if (NOT_RECORDED.includes(name)) return undefined;
    if (inner instanceof Uint8Array) return createHash("sha256").update(inner).digest("hex");
    return typeof inner === "bigint" ? String(inner) : inner;
  });
  return (shape ?? "null").toWellFormed();
}

/** Returns a digest of a text: 32 hexadecimal digits. */
export function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}

function plainPart(part: unknown): ContentPart {
  if (typeof part === "string") return { type: "text", text: part.toWellFormed() };
  if (isText(part)) return { type: "text", text: String((part as Part)["text"]).toWellFormed() };
  if (!part || typeof part !== "object") return { type: "text", text: shapeOf(part) };
  const type = MEDIA.get((part as Part)["type"]);
  if (type && !isTextDocument(part)) return { type, digest: digestOf(shapeOf(part)) };
  return { type: "other", text: shapeOf(part) };
}

function isTextDocument(part: unknown): boolean {
  const source = (part as Part | null)?.["source"] as Part | null | undefined;
  return ["text", "content"].includes(source?.["type"] as string);
}
