/**
 * Signatures that a provider attaches to the first tool call of a step, and checks there.
 *
 * Gemini signs only the first of the calls that a model makes side by side, and refuses a step whose
 * first call has no signature. So if that call is omitted, the first remaining call gets its
 * signature. OpenRouter has the signatures of calls in the message's `reasoning_details`.
 */

type Fields = Readonly<Record<string, unknown>>;
type Path = readonly string[];

/** Where calls have signatures: in Google's own fields, LiteLLM's, agent SDKs' and gateways'. */
const PATHS: readonly Path[] = [
  ["extra_content", "google", "thought_signature"],
  ["provider_specific_fields", "thought_signature"],
  ["function", "provider_specific_fields", "thought_signature"],
  ["provider_data", "thought_signature"],
  ["providerData", "thought_signature"],
  ["provider_details", "thought_signature"],
  ["providerOptions", "google", "thoughtSignature"],
  ["providerOptions", "vertex", "thoughtSignature"],
  ["providerOptions", "openrouter", "reasoning_details"],
  ["thought_signature"],
  ["thoughtSignature"],
  ["function", "thought_signature"],
];
/** LiteLLM also appends this mark and the signature to a call's id. */
const IN_ID = "__thought__";

/** Returns where a call has a signature, and the signature; null if it has none. */
function signatureOf(call: unknown): [Path, unknown] | null {
  for (const path of PATHS) {
    const value = path.reduce<unknown>((fields, name) => (fields as Fields | null | undefined)?.[name], call);
    if (value) return [path, value];
  }
  const { id, call_id: callId } = (call ?? {}) as { id?: unknown; call_id?: unknown };
  for (const name of [id, callId]) {
    const [, signature] = String(name ?? "").split(IN_ID);
    if (signature) return [["provider_specific_fields", "thought_signature"], signature];
  }
  return null;
}

function withSignature(call: Fields, [name = "", ...inner]: Path, signature: unknown): Fields {
  if (!inner.length) return { ...call, [name]: signature };
  const below = (call[name] ?? {}) as Fields;
  return { ...call, [name]: withSignature(below, inner, signature) };
}

/**
 * Returns the first remaining call of a step, with the signature of an omitted call before it.
 *
 * `omitted` are the calls before it that are omitted, in order.
 */
export function signFirst<T>(call: T, omitted: readonly unknown[]): T {
  if (!call || typeof call !== "object" || signatureOf(call)) return call;
  const found = omitted.map(signatureOf).find(Boolean);
  return found ? (withSignature(call as Fields, ...found) as T) : call;
}

/**
 * Returns OpenRouter's `reasoning_details` of a message, so that none names an omitted call.
 *
 * `omitted` and `first` are as in `pointReasoning`. OpenRouter's provider for the AI SDK has them in
 * the options of a message or of its first call.
 */
export function pointDetails<T extends object>(part: T, omitted: readonly unknown[], first: unknown): T {
  const options = (part as Fields)["providerOptions"] as Fields | undefined;
  const openrouter = options?.["openrouter"] as Fields | undefined;
  const details = pointReasoning(openrouter?.["reasoning_details"], omitted, first);
  if (!openrouter || details === openrouter["reasoning_details"]) return part;
  return { ...part, providerOptions: { ...options, openrouter: { ...openrouter, reasoning_details: details } } };
}

/**
 * Returns a message's `reasoning_details`, so that none names an omitted call.
 *
 * A detail may have the id of its call. `omitted` are the ids of omitted calls, `first` is the id of
 * the first remaining call; undefined if there is none. If that call has no detail, it gets the
 * first detail of an omitted call. The other details of omitted calls are removed.
 */
export function pointReasoning(details: unknown, omitted: readonly unknown[], first: unknown): unknown {
  if (!Array.isArray(details)) return details;
  const idOf = (detail: unknown) => (detail as Fields | null | undefined)?.["id"];
  const isOfOmitted = (detail: unknown) => Boolean(idOf(detail)) && omitted.includes(idOf(detail));
  const hasDetail = first === undefined || details.some((detail) => idOf(detail) === first);
  if (!details.some(isOfOmitted)) return details;
  const moved = hasDetail ? -1 : details.findIndex(isOfOmitted);
  return details.flatMap((detail: unknown, index) => {
    if (!isOfOmitted(detail)) return [detail];
    return index === moved ? [{ ...(detail as Fields), id: first }] : [];
  });
}
