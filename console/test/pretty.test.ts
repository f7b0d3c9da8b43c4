import { expect, test } from "vitest";
import { prettyJson } from "../src/parts/pretty";

test.each(["plain", '"text"', "{broken", "[1,", ""])("%s is not laid out", (text) => expect(prettyJson(text)).toBeNull());

test("numbers stay as they were written", () => {
  expect(prettyJson('{"id":12345678901234567890,"share":1.50}')).toBe('{\n  "id": 12345678901234567890,\n  "share": 1.50\n}');
});

test("what is empty stays on its line", () => {
  expect(prettyJson('[{}, [ ], {"a": []}]')).toBe('[\n  {},\n  [],\n  {\n    "a": []\n  }\n]');
});

test("no character of a text is taken for structure", () => {
  const value = { "a,b": 'he said "{[:,]}" \\ and left', tail: "\\" };
  const text = prettyJson(JSON.stringify(value)) ?? "";
  expect(JSON.parse(text)).toEqual(value);
  expect(text.split("\n")).toHaveLength(4);
});
