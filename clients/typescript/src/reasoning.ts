/** Reasoning in a message: a provider refuses reasoning without the part that it led to. */

import { holdsText, withText } from "./contents.js";

/**
 * Returns the parts of a message that a prompt has.
 *
 * `text` replaces the message's texts (null: they stay; empty: none). `show` returns each other part
 * as it is sent, or null to omit it. Reasoning is sent if any part between it and the next reasoning
 * is, or if there is none.
 */
export function shownParts<T>(
  parts: readonly T[],
  text: string | null,
  isReasoning: (part: T) => boolean,
  show: (part: T) => T | null,
): T[] {
  const texts = parts.filter(holdsText);
  const shownTexts = text === null ? texts : (withText(texts, text) as T[]);
  const shown: T[] = [];
  let pending: T[] = [];
  let hasOmitted = false;
  let textCount = 0;
  for (const part of parts) {
    if (isReasoning(part)) {
      pending = hasOmitted ? [part] : [...pending, part];
      hasOmitted = false;
      continue;
    }
    const own = holdsText(part) ? (shownTexts[textCount++] ?? null) : show(part);
    if (own === null) hasOmitted = true;
    else shown.push(...pending.splice(0), own);
  }
  return hasOmitted ? shown : [...shown, ...pending];
}
