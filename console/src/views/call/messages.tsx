// Parts that the lists of a prompt's and of the full history's messages share.
import type { ComponentChildren } from "preact";

export const ROLES: Record<string, string> = { system: "System", user: "User", assistant: "Assistant", tool: "Result" };

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
