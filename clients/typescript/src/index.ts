/** ContextRender's client: see `ContextRender`. */

export { ContextRender, type ClientOptions, type Where } from "./client.js";
export {
  callOf,
  ChatTranscript,
  resultOf,
  type AnyMessage,
  type ChatCall,
  type ChatMessage,
  type Transcript,
} from "./dialects/chat.js";
export type { Content, ContentPart } from "./contents.js";
export { Core, type CoreOptions, type RenderOptions } from "./core.js";
export type { Credentials } from "./credentials.js";
export type { Dialect } from "./dialects/index.js";
export * from "./errors.js";
export type { FitOptions, Fitted, FittedRequest, Settings } from "./fitting.js";
export { drive, type Act, type Answer, type Exchange, type Flow, type Step } from "./flow.js";
export { Plan, type Staying } from "./plan.js";
export type * from "./replies.js";
