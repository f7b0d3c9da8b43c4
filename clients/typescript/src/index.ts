/** The TypeScript client of ContextRender: see the class `ContextRender`. */

export { ContextRender, type ClientOptions, type RenderOptions, type BranchOptions } from "./client.js";
export {
  callOf,
  ChatTranscript,
  resultOf,
  type AnyMessage,
  type ChatCall,
  type ChatMessage,
  type Transcript,
} from "./chat.js";
export type { Content, ContentPart } from "./contents.js";
export type { Credentials } from "./credentials.js";
export * from "./errors.js";
export type { FitOptions, FitResult, Settings } from "./fitting.js";
export type { Answer, Exchange, Link } from "./http.js";
export { Plan, type ShownParts } from "./plan.js";
export type * from "./replies.js";
