// Parts of both lists of messages: of a prompt, and of the full history.
import type { ComponentChildren } from "preact";
import { number } from "../../format";

/** How many more messages a press asks for. */
export const MORE = 500;

export const ROLES: Record<string, string> = { system: "System", user: "User", assistant: "Assistant", tool: "Result" };

/** The newest messages are what a reader looks for first: earlier ones wait behind this button. */
export const Earlier = ({ there, all, onMore }: { there: number; all: number; onMore: () => void }) =>
  there < all ? (
    <button class="wide" onClick={onMore}>
      Show {number(Math.min(MORE, all - there))} earlier of {number(all - there)}
    </button>
  ) : null;

/** `gone`: it was not in the prompt. */
export function ToolCall({ name, gone, children }: { name: string; gone?: boolean; children: ComponentChildren }) {
  return (
    <p class={gone ? "toolcall gone" : "toolcall"}>
      <span class="arrow" aria-hidden="true">
        →
      </span>
      <code>
        <b>{name}</b> {children}
      </code>
      {gone && <span class="tag">omitted</span>}
    </p>
  );
}
