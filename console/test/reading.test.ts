import { expect, test } from "vitest";
import { prettyJson, readingOf } from "../src/parts/reading";

const ESC = "\u001b";
const shown = (text: string) => {
  const reading = readingOf(text);
  return reading && [reading.name, reading.text];
};

test.each(["plain", '"text"', "{broken", "", "- a list\n- of lines", "[]"])("%j is read as it stands", (text) =>
  expect(readingOf(text)?.text ?? text).toBe(text),
);

test("text blocks are their texts, one after another", () => {
  const blocks = [
    { type: "text", text: "first\nline" },
    { type: "text", text: "second" },
  ];
  expect(shown(JSON.stringify(blocks))).toEqual(["text blocks", "first\nline\nsecond"]);
  expect(shown(JSON.stringify({ content: blocks, isError: false }))).toEqual(["text blocks", "first\nline\nsecond"]);
  expect(shown(JSON.stringify(blocks[1]))).toEqual(["text blocks", "second"]);
});

test("what a text block holds is laid out in its turn", () => {
  expect(shown(JSON.stringify([{ type: "text", text: '{"a":1}' }]))).toEqual(["JSON", '{\n  "a": 1\n}']);
});

test("images of known kinds are shown, others are left in the JSON", () => {
  const image = (mimeType: string) => JSON.stringify([{ type: "image", data: "AAAA", mimeType }]);
  expect(readingOf(image("image/png"))?.images).toEqual(["data:image/png;base64,AAAA"]);
  expect(readingOf(image("image/svg+xml"))?.name).toBe("JSON");
});

test("blocks of another kind leave all as JSON", () => {
  expect(shown('[{"type":"text","text":"a"},{"type":"video"}]')?.[0]).toBe("JSON");
});

test("no sequence of a terminal is left", () => {
  const text = `${ESC}[1;31mFAILED${ESC}[0m tests ${ESC}[92mok${ESC}[39m${ESC}[2K${ESC}]0;title\u0007 end ${ESC}[38;5;208mx`;
  expect(shown(text)).toEqual(["plain text", "FAILED tests ok end x"]);
});

test("numbers stay as they were written", () => {
  expect(prettyJson('{"id":12345678901234567890,"share":1.50}')).toBe('{\n  "id": 12345678901234567890,\n  "share": 1.50\n}');
});

test("what is empty stays on its line", () => {
  expect(prettyJson('[{}, [ ], {"a": []}]')).toBe('[\n  {},\n  [],\n  {\n    "a": []\n  }\n]');
});

test("no character of a text is taken for structure", () => {
  const value = { "a,b": 'he said "{[:,]}" \\ and left', tail: "\\" };
  const text = prettyJson(JSON.stringify(value));
  expect(JSON.parse(text)).toEqual(value);
  expect(text.split("\n")).toHaveLength(4);
});
