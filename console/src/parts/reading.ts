// The layout of a result for reading: text blocks, JSON, tables, diffs and terminal colours.

/** A piece of text and the class it is drawn with, "" for none. */
export interface Segment {
  text: string;
  kind: string;
}

export interface Reading {
  /** The name of the layout. */
  name: string;
  text: string;
  /** Addresses of the images among text blocks, within the text itself. */
  images: string[];
  paint: (block: string) => Segment[];
}

type Fields = Record<string, unknown>;

/** The third argument of a reviver in newer browsers: the source text of a number. */
type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;

const INDENT = "  ";
const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const WIDEST_CELL = 60;
const ESCAPE = "\u001b";
/** Colours and weights of terminals; every other sequence moves a cursor that is not there. */
const SEQUENCE = new RegExp(String.raw`${ESCAPE}(?:\[([0-9;:?]*)[ -/]*([@-~])|\][^\u0007${ESCAPE}]*(?:\u0007|${ESCAPE}\\)|[@-Z\\^_])`, "g");
const DIFF = /^(?:diff --git .*\n(?:.*\n){0,6}?)?--- .+\n\+\+\+ .+\n@@ /;

/** Return the layout of a text; null if it is best shown unchanged. */
export function readingOf(text: string): Reading | null {
  const json = parse(text);
  const blocks = textBlocks(json);
  if (blocks !== null) {
    const within = blocks.images.length === 0 ? readingOf(blocks.text) : null;
    return within ?? { name: "text blocks", ...blocks, paint: plain };
  }
  const reading = (name: string, laid: string, paint = plain): Reading => ({ name, text: laid, images: [], paint });
  if (text.includes(`${ESCAPE}[`)) return reading("colours", text, painted);
  if (DIFF.test(text)) return reading("diff", text, compared);
  if (json === undefined) return null;
  const table = tableOf(json);
  return table === null ? reading("JSON", laidOut(text)) : reading("table", table);
}

export const plain = (text: string): Segment[] => [{ text, kind: "" }];

/** Return the text with its JSON laid out if it is an object or array, otherwise unchanged. Numbers do not change. */
export const prettyJson = (text: string): string => (parse(text) === undefined ? text : laidOut(text));

/** Return the arguments of a call laid out, with line breaks in texts. Of arguments that were cut, which are no
 * JSON, only the escapes are replaced. */
export function readableArguments(text: string): string {
  if (parse(text) !== undefined) return laidOut(text, true);
  return text.replace(/\\([\\nrt"])/g, (_, letter: string) => ESCAPES[letter]);
}

const ESCAPES: Record<string, string> = { n: "\n", r: "\r", t: "\t", '"': '"', "\\": "\\" };

/** Return the content of a result in MCP's format; null for another format. */
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

/** Return a table of objects that have the same few fields. */
function tableOf(rows: unknown): string | null {
  if (!Array.isArray(rows) || rows.length < 2 || !rows.every(isFields)) return null;
  const names = Object.keys(rows[0]);
  if (names.length < 2 || !rows.every((row) => Object.keys(row).join("\n") === names.join("\n"))) return null;
  if (rows.some((row) => Object.values(row).some((cell) => typeof cell === "object" && cell !== null))) return null;
  const lines = [names, ...rows.map((row) => Object.values(row).map(String))];
  if (lines.some((cells) => cells.some((cell) => cell.length > WIDEST_CELL || cell.includes("\n")))) return null;
  const widths = names.map((_, column) => lines.reduce((most, cells) => Math.max(most, cells[column].length), 0));
  return lines.map((cells) => cells.map((cell, column) => cell.padEnd(widths[column])).join("  ").trimEnd()).join("\n");
}

function compared(text: string): Segment[] {
  const kinds: Record<string, string> = { "+": "added", "-": "removed", "@": "hunk" };
  const segments: Segment[] = [];
  for (const line of text.split(/(?<=\n)/)) {
    const kind = /^(?:\+\+\+|---) /.test(line) ? "hunk" : (kinds[line[0]] ?? "");
    const last = segments.at(-1);
    if (last?.kind === kind) last.text += line;
    else segments.push({ text: line, kind });
  }
  return segments;
}

function painted(text: string): Segment[] {
  const segments: Segment[] = [];
  let [colour, bold, end] = ["", "", 0];
  const add = (upTo: number) => upTo > end && segments.push({ text: text.slice(end, upTo), kind: `${colour} ${bold}`.trim() });
  for (const match of text.matchAll(SEQUENCE)) {
    add(match.index);
    end = match.index + match[0].length;
    if (match[2] !== "m") continue;
    for (const code of (match[1] || "0").split(/[;:]/).map(Number)) {
      if (code === 38 || code === 48) break;
      if (code === 1) bold = "bold";
      if (code === 0 || code === 22) bold = "";
      if (code === 0 || code === 39) colour = "";
      if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) colour = `ansi${code % 10}`;
    }
  }
  add(text.length);
  return segments;
}

/** Return a number as it was written. Return an object, which is no cell, if that is not known. */
const keepSource: Reviver = (_, value, context) =>
  typeof value === "number" ? (context?.source ?? (Number.isSafeInteger(value) ? String(value) : {})) : value;

/** A text that is JSON, laid out without changing a character of any value; with `lines`, a text of several
 * lines is written as lines. */
function laidOut(text: string, lines = false): string {
  const out: string[] = [];
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (c === '"') {
      let end = i + 1;
      while (text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
      const literal = text.slice(i, end + 1);
      const margin = `\n${INDENT.repeat(depth + 1)}`;
      out.push(lines && literal.includes("\\n") ? margin + (JSON.parse(literal) as string).replaceAll("\n", margin) : literal);
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

/** Return the parsed object or array, otherwise undefined. Only possible tables keep numbers as text, which is slower. */
function parse(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text, /^\s*\[\s*\{/.test(text) ? keepSource : undefined);
  } catch {
    return undefined;
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
