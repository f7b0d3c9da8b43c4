// Exports read from files: chosen with a button, or dropped on the page.
import { useEffect, useRef, useState } from "preact/hooks";
import { request } from "../api";
import type { SyncView } from "../types";

interface Props {
  /** Called with the sessions that are there now. */
  onDone: (sessions: string[]) => void;
  onFailure: (error: unknown) => void;
}

export function Importing({ onDone, onFailure }: Props) {
  const input = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const [busy, setBusy] = useState("");
  const take = async (files: FileList | null | undefined) => {
    const made: string[] = [];
    try {
      for (const file of files ?? []) {
        setBusy(file.name);
        made.push((await request<SyncView>("import_session", { data: await readExport(file) })).session);
      }
    } catch (error) {
      onFailure(error);
    }
    setBusy("");
    if (made.length) onDone(made);
  };
  useEffect(() => {
    const drag = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setOver(event.type === "dragover");
      if (event.type === "drop") void take(event.dataTransfer.files);
    };
    const stop = new AbortController();
    for (const name of ["dragover", "dragleave", "drop"] as const) addEventListener(name, drag, stop);
    return () => stop.abort();
  });
  return (
    <>
      <button onClick={() => input.current?.click()} disabled={busy !== ""} title="Exported sessions; or drop their files on this page">
        {busy ? `Importing ${busy}…` : "Import"}
      </button>
      <input
        ref={input}
        class="hidden"
        type="file"
        accept=".json,application/json"
        multiple
        tabIndex={-1}
        aria-label="Files to import"
        onChange={(event) => {
          const { files } = event.currentTarget;
          void take(files).finally(() => input.current && (input.current.value = ""));
        }}
      />
      {over && <div class="dropping">Drop exported sessions to import them</div>}
    </>
  );
}

async function readExport(file: File): Promise<object> {
  try {
    const read: unknown = JSON.parse(await file.text());
    if (typeof read === "object" && read !== null) return read;
  } catch {
    // Told below.
  }
  throw new Error(`${file.name} is not an exported session: it is not JSON.`);
}
