/** Requests as the client reads and cuts them, a line of JSON each, for `test_dialects.py`. */

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [, , dist] = process.argv;
const { DIALECTS } = await import(String(pathToFileURL(`${dist}/dialects/index.js`)));
const { Plan } = await import(String(pathToFileURL(`${dist}/plan.js`)));

for await (const line of createInterface({ input: process.stdin })) {
  const { dialect, body, shown, breakpoints } = JSON.parse(line);
  const { field, read } = DIALECTS[dialect];
  const items = body[field];
  const { messages, apply } = bound(read(body, items));
  const left = shown && apply(new Plan(messages, shown, breakpoints));
  const same = left && left.length === items.length && left.every((item, at) => item === items[at]);
  console.log(JSON.stringify({ messages, left, same }));
}

function bound(transcript) {
  return { messages: transcript.messages, apply: (plan) => transcript.apply(plan) };
}
