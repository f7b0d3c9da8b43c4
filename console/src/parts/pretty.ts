// JSON laid out for reading, without changing a character of any value.

const INDENT = "  ";

/** The text laid out if it is JSON of an object or array, else null. Numbers stay as written. */
export function prettyJson(text: string): string | null {
  const start = text.trimStart()[0];
  if (start !== "{" && start !== "[") return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  return laidOut(text);
}

/** A text that is JSON of an object or array, laid out. */
export function laidOut(text: string): string {
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
