import { expect, test } from "vitest";
import { curlOf, fixtureOf } from "../src/views/call/sent";

const MESSAGES = [{ role: "user", content: "it's \"quoted\" \\n é\n🙂" }];

test("the shell command sends the exact body", () => {
  const body = curlOf("m", MESSAGES).split(" -d ")[1];
  const read = body.slice(1, -1).split("'\\''").join("'");
  expect(JSON.parse(read)).toEqual({ model: "m", messages: MESSAGES });
});

test("the fixture has the messages in one literal", () => {
  const literal = /json\.loads\((".*")\)/.exec(fixtureOf(MESSAGES))![1];
  expect(JSON.parse(JSON.parse(literal))).toEqual(MESSAGES);
});
