// Parts that the lists of a prompt's and of the full history's messages share.
import type { ComponentChildren } from "preact";
import { number } from "../../format";

/** The number of messages that one press loads. */
export const MORE = 500;

export const ROLES: Record<string, string> = { system: "System", user: "User", assistant: "Assistant", tool: "Result" };

/** The button that loads earlier messages. The newest ones are loaded first. */
export const Earlier = ({ there: loaded, all, onMore }: { there: number; all: number; onMore: () => void }) =>
  loaded < all ? (
    <button class="wide" onClick={onMore}>
      Show {number(Math.min(MORE, all - loaded))} earlier of {number(all - loaded)}
    </button>
  ) : null;

/** `gone` is true if the prompt does not have the message. */
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
