// Characters that reorder the text around them are drawn as their codes, in every text of the page: an agent's
// output must not look like something else.
import { options, type VNode } from "preact";

const REORDERING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** The text with reordering characters written as their codes. */
export const visibleText = (text: string): string =>
  text.replace(REORDERING, (character) => `\u27e8U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);

const visible = (value: unknown): unknown =>
  typeof value === "string" ? visibleText(value) : Array.isArray(value) ? value.map(visible) : value;

/** Apply `visibleText` to all children and titles that are drawn from now on. */
export function showReorderingCharacters(): void {
  const previous = options.vnode;
  options.vnode = (vnode: VNode) => {
    const props = vnode.props as Record<string, unknown>;
    if (typeof vnode.type === "string") for (const name of ["children", "title", "aria-label"]) if (props[name]) props[name] = visible(props[name]);
    previous?.(vnode);
  };
}
