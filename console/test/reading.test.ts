import { expect, test } from "vitest";
import { prettyJson, readableArguments, readingOf } from "../src/parts/reading";

const ESC = "\u001b";
const shown = (text: string) => {
  const reading = readingOf(text);
  return reading && [reading.name, reading.text];
};

test.each(["plain", '"text"', "{broken", "", "- a list\n- of lines", "[]"])("%j is read as it stands", (text) =>
  expect(readingOf(text)?.text ?? text).toBe(text),
);

test("text blocks are joined", () => {
  const blocks = [
    { type: "text", text: "first\nline" },
    { type: "text", text: "second" },
  ];
  expect(shown(JSON.stringify(blocks))).toEqual(["text blocks", "first\nline\nsecond"]);
  expect(shown(JSON.stringify({ content: blocks, isError: false }))).toEqual(["text blocks", "first\nline\nsecond"]);
  expect(shown(JSON.stringify(blocks[1]))).toEqual(["text blocks", "second"]);
});

test("the contents of a text block are formatted", () => {
  expect(shown(JSON.stringify([{ type: "text", text: '{"a":1}' }]))).toEqual(["JSON", '{\n  "a": 1\n}']);
});

test("known image types are shown, others stay JSON", () => {
  const image = (mimeType: string) => JSON.stringify([{ type: "image", data: "AAAA", mimeType }]);
  expect(readingOf(image("image/png"))?.images).toEqual(["data:image/png;base64,AAAA"]);
  expect(readingOf(image("image/svg+xml"))?.name).toBe("JSON");
});

test("unknown block types stay JSON", () => {
  expect(shown('[{"type":"text","text":"a"},{"type":"video"}]')?.[0]).toBe("JSON");
});

test("objects with equal fields become a table with unchanged numbers", () => {
  const text = '[{"id":1234567,"name":"ada","on":true},{"id":7,"name":null,"on":false}]';
  expect(shown(text)).toEqual(["table", "id       name  on\n1234567  ada   true\n7        null  false"]);
  const long = readingOf('[{"id":12345678901234567890,"share":1.50},{"id":7,"share":2}]')?.text;
  expect(long).toContain("12345678901234567890");
  expect(long).toContain("1.50");
});

test.each([
  '[{"a":1,"b":2}]',
  '[{"a":1,"b":2},{"a":1}]',
  '[{"a":1,"b":{}},{"a":1,"b":{}}]',
  '[{"a":"x\\ny","b":2},{"a":1,"b":2}]',
])("%s is no table", (text) => expect(readingOf(text)?.name).toBe("JSON"));

test("diff lines have their types", () => {
  const text = "diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n";
  const reading = readingOf(text);
  expect(reading?.name).toBe("diff");
  expect(reading?.paint(text)).toEqual([
    { text: "diff --git a/x b/x\nindex 1..2\n", kind: "" },
    { text: "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n", kind: "hunk" },
    { text: " same\n", kind: "" },
    { text: "-old\n", kind: "removed" },
    { text: "+new\n", kind: "added" },
  ]);
});

test("terminal colours become classes and escape sequences are removed", () => {
  const text = `${ESC}[1;31mFAILED${ESC}[0m tests ${ESC}[92mok${ESC}[39m${ESC}[2K${ESC}]0;title\u0007 end ${ESC}[38;5;208mx`;
  expect(readingOf(text)?.paint(text)).toEqual([
    { text: "FAILED", kind: "ansi1 bold" },
    { text: " tests ", kind: "" },
    { text: "ok", kind: "ansi2" },
    { text: " end ", kind: "" },
    { text: "x", kind: "" },
  ]);
});

test("numbers are unchanged", () => {
  expect(prettyJson('{"id":12345678901234567890,"share":1.50}')).toBe('{\n  "id": 12345678901234567890,\n  "share": 1.50\n}');
});

test("empty values stay on one line", () => {
  expect(prettyJson('[{}, [ ], {"a": []}]')).toBe('[\n  {},\n  [],\n  {\n    "a": []\n  }\n]');
});

test("characters in a text are not parsed as structure", () => {
  const value = { "a,b": 'he said "{[:,]}" \\ and left', tail: "\\" };
  const text = prettyJson(JSON.stringify(value));
  expect(JSON.parse(text)).toEqual(value);
  expect(text.split("\n")).toHaveLength(4);
});

test("line breaks in a call's arguments are kept", () => {
  expect(readableArguments('{"path":"a.py","content":"def f():\\n  return 12345678901234567890","n":12345678901234567890}')).toBe(
    '{\n  "path": "a.py",\n  "content": \n    def f():\n      return 12345678901234567890,\n  "n": 12345678901234567890\n}',
  );
  expect(readableArguments('{"content":"first\\nsecond \\"qu')).toBe('{"content":"first\nsecond "qu');
});
