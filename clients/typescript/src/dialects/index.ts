/** Requests as providers take them: where their history is, and how it is read. */

import { ChatTranscript, type AnyMessage, type Transcript } from "./chat.js";
import { MessagesTranscript } from "./messages.js";
import { responsesTranscript } from "./responses.js";

/** OpenAI chat completions, OpenAI Responses, Anthropic Messages. */
export type Dialect = "chat" | "responses" | "messages";

interface Format {
  /** The field that holds the history. */
  field: string;
  read(request: Record<string, unknown>, items: readonly unknown[]): Transcript<unknown>;
}

export const DIALECTS: Record<Dialect, Format> = {
  chat: {
    field: "messages",
    read: (_, items) => new ChatTranscript(items as AnyMessage[]) as Transcript<unknown>,
  },
  messages: {
    field: "messages",
    read: (request, items) => new MessagesTranscript(request, items),
  },
  responses: { field: "input", read: responsesTranscript },
};
