// Light, dark, or as the system has it; and the colours that canvases need.
import { useEffect, useState } from "preact/hooks";

const KEY = "contextrender.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

const isDark = (): boolean => (localStorage.getItem(KEY) ?? (system.matches ? "dark" : "light")) === "dark";

export function setTheme(value: "light" | "dark"): void {
  localStorage.setItem(KEY, value);
  applyTheme();
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  for (const listener of listeners) listener();
}

system.addEventListener("change", applyTheme);

/** Whether the page is dark now; a change renders anew. */
export function useDark(): boolean {
  const [dark, setDark] = useState(isDark());
  useEffect(() => {
    const changed = () => setDark(isDark());
    listeners.add(changed);
    return () => void listeners.delete(changed);
  }, []);
  return dark;
}

/** A colour of the style sheet. */
export const colour = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** The hue of a tool: the same wherever the tool appears, far from its neighbours'. */
export function toolColour(index: number, dark: boolean, alpha = 1): string {
  const hue = (212 + index * 137.508) % 360;
  return `hsl(${hue.toFixed(0)} ${dark ? "58% 64%" : "54% 46%"} / ${alpha})`;
}
