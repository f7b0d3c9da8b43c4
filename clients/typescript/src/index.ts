/** ContextRender's client: see `ContextRender`. */

export { ContextRender, type ClientOptions, type RenderOptions, type Where } from "./client.js";
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
export type { FitOptions, Fitted, Settings } from "./fitting.js";
export type { Answer, Exchange, Link } from "./http.js";
export { Plan, type Staying } from "./plan.js";
export type * from "./replies.js";
