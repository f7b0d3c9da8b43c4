// What this browser keeps for the page. A change draws the page anew, in every tab.
import { useEffect, useState } from "preact/hooks";

export const kept = (name: string): string | null => localStorage.getItem(`contextrender.${name}`);

export function keep(name: string, value: string | null): void {
  if (value === null) localStorage.removeItem(`contextrender.${name}`);
  else localStorage.setItem(`contextrender.${name}`, value);
  tellKept();
}

/** As the browser tells other tabs of a change. */
export const tellKept = (): boolean => dispatchEvent(new StorageEvent("storage"));

/** Draws the component anew whenever something else is kept. */
export function useKept(): void {
  const [, setChanges] = useState(0);
  useEvent("storage", () => setChanges((count) => count + 1));
}

/** Listens to an event of the window's. */
export function useEvent<K extends keyof WindowEventMap>(name: K, listener: (event: WindowEventMap[K]) => void): void {
  useEffect(() => {
    addEventListener(name, listener);
    return () => removeEventListener(name, listener);
  });
}
