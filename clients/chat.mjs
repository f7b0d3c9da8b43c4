/** Histories as the client reads and cuts them, a line of JSON each, for `test_chat.py`. */

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [, , dist] = process.argv;
const { ChatTranscript, Plan } = await import(String(pathToFileURL(`${dist}/index.js`)));

for await (const line of createInterface({ input: process.stdin })) {
  const { items, shown } = JSON.parse(line);
  const transcript = new ChatTranscript(items);
  const left = shown && transcript.apply(new Plan(transcript.messages, shown));
  console.log(JSON.stringify({ messages: transcript.messages, left }));
}
