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
    if (!isText(part)) return [part];
    if (!pending) return [];
    pending = false;
    return [typeof part === "string" ? text : { ...(part as Part), text }];
  });
  return pending ? [{ type, text }, ...kept] : kept;
}

/** Whether a content part is text and nothing else. */
export function isText(part: unknown): boolean {
  if (typeof part === "string") return true;
  const { type, text } = (part ?? {}) as Part;
  return TEXT.includes(type as string) && typeof text === "string";
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
  const type = MEDIA.get((part as Part | null)?.["type"]);
  if (type) return { type, digest: digestOf(shapeOf(part)) };
  return { type: "other", text: shapeOf(part) };
}
