// The preferences that this browser stores. A change redraws the page in every tab.
import { useEffect, useState } from "preact/hooks";

export const preference = (name: string): string | null => localStorage.getItem(`contextrender.${name}`);

export function setPreference(name: string, value: string | null): void {
  if (value === null) localStorage.removeItem(`contextrender.${name}`);
  else localStorage.setItem(`contextrender.${name}`, value);
  announceChange();
}

/** Send this tab the event that browsers send to the other tabs. */
export const announceChange = (): boolean => dispatchEvent(new StorageEvent("storage"));

/** Redraw the component whenever a preference changes. */
export function usePreferences(): void {
  const [, setChanges] = useState(0);
  useEvent("storage", () => setChanges((count) => count + 1));
}

/** Listen to an event of the window. */
export function useEvent<K extends keyof WindowEventMap>(name: K, listener: (event: WindowEventMap[K]) => void): void {
  useEffect(() => {
    addEventListener(name, listener);
    return () => removeEventListener(name, listener);
  });
}
