// A result as people read it: text blocks as text, JSON laid out, a terminal's colours left out.

export interface Reading {
  /** What it is laid out as, for people. */
  name: string;
  text: string;
  /** Addresses of the images among text blocks, within the text itself. */
  images: string[];
}

type Fields = Record<string, unknown>;

const INDENT = "  ";
const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const ESCAPE = "\u001b";
/** Colours of terminals, and what moves a cursor that is not there. */
const SEQUENCE = new RegExp(String.raw`${ESCAPE}(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\u0007${ESCAPE}]*(?:\u0007|${ESCAPE}\\)|[@-Z\\^_])`, "g");

/** How a text is read other than as it stands; null where it is best so. */
export function readingOf(text: string): Reading | null {
  const json = parse(text);
  const blocks = textBlocks(json);
  if (blocks !== null) {
    const within = blocks.images.length === 0 ? readingOf(blocks.text) : null;
    return within ?? { name: "text blocks", ...blocks };
  }
  if (text.includes(`${ESCAPE}[`)) return { name: "plain text", text: text.replace(SEQUENCE, ""), images: [] };
  return json === undefined ? null : { name: "JSON", text: laidOut(text), images: [] };
}

/** The text laid out if it is JSON of an object or array, else as it is. Numbers stay as written. */
export const prettyJson = (text: string): string => (parse(text) === undefined ? text : laidOut(text));

/** The content of a result in MCP's form, if it is nothing else. */
function textBlocks(parsed: unknown): { text: string; images: string[] } | null {
  const content = isFields(parsed) && Array.isArray(parsed.content) ? parsed.content : parsed;
  const blocks: unknown[] = Array.isArray(content) ? content : [content];
  const texts: string[] = [];
  const images: string[] = [];
  for (const block of blocks) {
    if (!isFields(block)) return null;
    if (block.type === "text" && typeof block.text === "string") texts.push(block.text);
    else if (block.type === "image" && typeof block.data === "string" && IMAGES.includes(String(block.mimeType)))
      images.push(`data:${block.mimeType};base64,${block.data}`);
    else return null;
  }
  return blocks.length ? { text: texts.join("\n"), images } : null;
}

/** A text that is JSON, laid out without changing a character of any value. */
function laidOut(text: string): string {
  const out: string[] = [];
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (c === '"') {
      let end = i + 1;
      while (text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
      out.push(text.slice(i, end + 1));
      i = end;
    } else if (c === "{" || c === "[") {
      const closing = /\S/.exec(text.slice(i + 1, i + 200))?.[0];
      if (closing === "}" || closing === "]") {
        out.push(c + closing);
        i = text.indexOf(closing, i + 1);
      } else out.push(c, "\n", INDENT.repeat(++depth));
    } else if (c === "}" || c === "]") out.push("\n", INDENT.repeat(--depth), c);
    else if (c === ",") out.push(",\n", INDENT.repeat(depth));
    else if (c === ":") out.push(": ");
    else if (c > " ") out.push(c);
  }
  return out.join("");
}

/** JSON of an object or array, else undefined. */
function parse(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
