/**
 * The errors of calls, as one tree.
 *
 * ContextRenderError
 * ├── NoCredentials       no address or no token is known
 * ├── Unreachable         no answer, or none in time; whether the work was done is unknown
 * ├── Unauthorized        the token is missing or invalid (401)
 * ├── InvalidRequest      the request is invalid (other 4xx)
 * ├── NotFound            the caller has no such session, result or turn (404)
 * ├── Conflict            the name is taken, or another write came first (409)
 * │   ├── HistoryDiverged the prefix differs from the recorded history (409)
 * │   └── OtherConversation  the messages differ from the recorded ones (409)
 * └── ServerError         the service failed, or is too busy (5xx)
 */

/**
 * The base of all errors. `code` is for programs and the message for people. `status` is the HTTP
 * status (0: no answer). `details` has the other fields of the service's error.
 */
export class ContextRenderError extends Error {
  readonly code: string;
  readonly status: number;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(
    code: string,
    status: number,
    message: string,
    details: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
    this.name = new.target.name;
    this.code = code;
    this.status = status;
    this.details = details;
  }
}

export class NoCredentials extends ContextRenderError {}
export class Unreachable extends ContextRenderError {}
export class Unauthorized extends ContextRenderError {}
export class InvalidRequest extends ContextRenderError {}
export class NotFound extends ContextRenderError {}
export class Conflict extends ContextRenderError {}
/** The recorded history differs. The client then sends all messages again. */
export class HistoryDiverged extends Conflict {}
/** The messages differ from the recorded ones, and the caller did not ask for a new branch. */
export class OtherConversation extends Conflict {}
export class ServerError extends ContextRenderError {}

/** Returns the error of a reply that is not a success. */
export function errorOf(status: number, body: unknown, url: string): ContextRenderError {
  const error = (body as { error?: unknown } | null)?.error;
  const { code, message, type: _, ...details } = (error ?? {}) as Record<string, unknown>;
  if (typeof code !== "string" || !/^\w+$/.test(code)) {
    const sentence = `The answer of ${url} (HTTP ${status}) is not ContextRender's. Is it the right address?`;
    return new ServerError("unexpected_reply", status, sentence);
  }
  return new (kindOf(status, code))(code, status, String(message), details);
}

/** Returns a short name of an error, without contents. */
export function reasonOf(failure: unknown): string {
  if (failure instanceof ContextRenderError) return failure.code;
  return failure instanceof Error ? failure.name : "unknown";
}

function kindOf(status: number, code: string): typeof ContextRenderError {
  if (code === "history_diverged") return HistoryDiverged;
  if (code === "other_conversation") return OtherConversation;
  if (status >= 500) return ServerError;
  if (status === 401) return Unauthorized;
  if (status === 404) return NotFound;
  return status === 409 ? Conflict : InvalidRequest;
}
