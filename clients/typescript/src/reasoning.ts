/** Reasoning in a message: a provider refuses reasoning without the part that it led to. */

import { holdsText, withText } from "./contents.js";

/**
 * Returns the parts of a message that a prompt has.
 *
 * `text` replaces the message's texts; null keeps them, and an empty text omits them. `show` returns
 * each other part as it is shown, or null if it is omitted. If all parts between reasoning and the
 * next reasoning are omitted, the reasoning is omitted, too.
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
  /** The reasoning after the last shown part. */
  let pendingReasoning: T[] = [];
  /** True if a part after that reasoning is omitted. */
  let hasOmitted = false;
  let textCount = 0;
  for (const part of parts) {
    if (isReasoning(part)) {
      pendingReasoning = hasOmitted ? [part] : [...pendingReasoning, part];
      hasOmitted = false;
      continue;
    }
    const shownPart = holdsText(part) ? (shownTexts[textCount++] ?? null) : show(part);
    if (shownPart === null) hasOmitted = true;
    else shown.push(...pendingReasoning.splice(0), shownPart);
  }
  return hasOmitted ? shown : [...shown, ...pendingReasoning];
}
