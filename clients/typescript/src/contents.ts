/**
 * Message contents: as they are recorded, and with a text in place of theirs.
 *
 * Media are recorded by their digest, without marks that move from call to call: what is recorded
 * of a message stays the same, and its media stay with the caller.
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
/** How messages begin that OpenClaw puts anew into each request. */
const VOLATILE = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>";
const MOVING = ["cache_control", "annotations", "logprobs", "providerOptions", "providerData"];

/** Content as it is recorded: text where it is nothing else. */
export function plainContent(content: unknown): Content {
  if (content === null || content === undefined) return null;
  if (typeof content === "string") return content.toWellFormed();
  if (!Array.isArray(content)) return shapeOf(content);
  const parts = content.map(plainPart);
  const texts = parts.flatMap((part) => (part.type === "text" ? [part.text] : []));
  return texts.length === parts.length ? texts.join("\n") : parts;
}

/** `content` with `text` in place of its own text; parts that are not text stay. */
export function withText(content: unknown, text: string, type = "text"): unknown {
  if (!Array.isArray(content)) return text;
  let pending = Boolean(text);
  const kept = content.flatMap((part: unknown) => {
    if (!holdsText(part)) return [part];
    if (!pending) return [];
    pending = false;
    return [withPart(part, text, type)];
  });
  return pending ? [{ type, text }, ...kept] : kept;
}

/** Whether a content part is text and nothing else. */
function isText(part: unknown): boolean {
  if (typeof part === "string") return true;
  const { type, text } = (part ?? {}) as Part;
  return TEXT.includes(type as string) && typeof text === "string";
}

/** Whether a part is text, or a document that is: its text is the message's, too. */
function holdsText(part: unknown): boolean {
  return isText(part) || (part as Part | null)?.["type"] === "search_result" || isTextDocument(part);
}

/** A part that holds text, with another text. */
function withPart(part: unknown, text: string, type = "text"): unknown {
  if (typeof part === "string") return text;
  return isText(part) ? { ...(part as Part), text } : { type, text };
}

/** How many items come before the trailing ones that a runtime appends anew to each request. */
export function historyEnd(items: readonly unknown[]): number {
  return items.findLastIndex((item) => !isVolatile(item)) + 1;
}

/** Whether a runtime puts a message anew into each request, wherever it then is. */
function isVolatile(item: unknown): boolean {
  const { role, content } = (item ?? {}) as Part;
  const first: unknown = Array.isArray(content) ? content[0] : content;
  const text = typeof first === "string" ? first : (first as Part | null | undefined)?.["text"];
  return role === "user" && typeof text === "string" && text.trimStart().startsWith(VOLATILE);
}

/** A value as JSON text; bytes and addresses as text too. */
export function shapeOf(value: unknown): string {
  const shape = JSON.stringify(value, (name, inner: unknown) => {
    if (MOVING.includes(name)) return undefined;
    if (inner instanceof Uint8Array) return createHash("sha256").update(inner).digest("hex");
    return typeof inner === "bigint" ? String(inner) : inner;
  });
  return (shape ?? "null").toWellFormed();
}

/** 32 hexadecimal digits that tell texts apart. */
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
