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

/** Returns the path of a call's signature in its fields, and the signature; null if it has none. */
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
  const innerFields = (call[name] ?? {}) as Fields;
  return { ...call, [name]: withSignature(innerFields, inner, signature) };
}

/**
 * Returns the first remaining call of a step.
 *
 * If it has no signature, it gets the first signature of `omitted`, the omitted calls before it.
 */
export function signFirst<T>(call: T, omitted: readonly unknown[]): T {
  if (!call || typeof call !== "object" || signatureOf(call)) return call;
  const pathAndSignature = omitted.map(signatureOf).find(Boolean);
  return pathAndSignature ? (withSignature(call as Fields, ...pathAndSignature) as T) : call;
}

/**
 * Returns a message or a call with `reasoning_details` that `moveReasoning` has changed.
 *
 * OpenRouter's provider for the AI SDK has these details in the options of a message or of its first
 * call.
 */
export function moveDetails<T extends object>(part: T, omittedIds: readonly unknown[], firstId: unknown): T {
  const options = (part as Fields)["providerOptions"] as Fields | undefined;
  const openrouter = options?.["openrouter"] as Fields | undefined;
  const details = moveReasoning(openrouter?.["reasoning_details"], omittedIds, firstId);
  if (!openrouter || details === openrouter["reasoning_details"]) return part;
  return { ...part, providerOptions: { ...options, openrouter: { ...openrouter, reasoning_details: details } } };
}

/**
 * Returns a message's `reasoning_details` without ids of omitted calls.
 *
 * OpenRouter puts a call's id into the reasoning detail that signs the call. `firstId` is the id of
 * the first remaining call, undefined if there is none. If no detail has this id, the first detail of
 * an omitted call gets it. The other details of omitted calls are removed.
 */
export function moveReasoning(details: unknown, omittedIds: readonly unknown[], firstId: unknown): unknown {
  if (!Array.isArray(details)) return details;
  const idOf = (detail: unknown) => (detail as Fields | null | undefined)?.["id"];
  const isOfOmitted = (detail: unknown) => Boolean(idOf(detail)) && omittedIds.includes(idOf(detail));
  if (!details.some(isOfOmitted)) return details;
  const needsDetail = firstId !== undefined && !details.some((detail) => idOf(detail) === firstId);
  const movedIndex = needsDetail ? details.findIndex(isOfOmitted) : -1;
  return details.flatMap((detail: unknown, index) => {
    if (!isOfOmitted(detail)) return [detail];
    return index === movedIndex ? [{ ...(detail as Fields), id: firstId }] : [];
  });
}
