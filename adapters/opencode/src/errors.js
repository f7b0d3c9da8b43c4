/** What a call to the service can end in; `code` is short and without contents. */
export class ServiceError extends Error {
  /** @param {string} code */
  constructor(code) {
    super(code);
    this.code = code;
  }
}

/**
 * A short name of what went wrong.
 *
 * @param {unknown} failure
 */
export function reasonOf(failure) {
  if (failure instanceof ServiceError) return failure.code;
  return failure instanceof Error ? failure.name : "unknown";
}
