/** Histories as the client reads and cuts them, a line of JSON each, for `test_chat.py`. */

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [, , dist] = process.argv;
const { ChatTranscript, Plan } = await import(String(pathToFileURL(`${dist}/index.js`)));

for await (const line of createInterface({ input: process.stdin })) {
  const { items, shown } = JSON.parse(line);
  const transcript = new ChatTranscript(items);
  const plan = shown && new Plan(transcript.messages, shown);
  plan?.showNewest(transcript.messages.findLastIndex(({ role }) => role === "assistant"), true);
  const left = plan && transcript.apply(plan);
  console.log(JSON.stringify({ messages: transcript.messages, left }));
}
