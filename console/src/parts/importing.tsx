// Sessions read from files: chosen with a button, or dropped on the page.
import { useEffect, useRef, useState } from "preact/hooks";
import { request } from "../api";
import type { OpenedFileView, SyncView } from "../types";

interface Props {
  /** Called with the names of the imported sessions. */
  onDone: (sessions: string[]) => void;
  onFailure: (error: unknown) => void;
}

export function Importing({ onDone, onFailure }: Props) {
  const input = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const [busy, setBusy] = useState("");
  const take = async (files: FileList | null | undefined) => {
    const imported: string[] = [];
    try {
      for (const file of files ?? []) {
        setBusy(file.name);
        for (const data of await readSessions(file)) imported.push((await request<SyncView>("import_session", { data })).session);
      }
    } catch (error) {
      onFailure(error);
    }
    setBusy("");
    if (imported.length) onDone(imported);
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
      <button onClick={() => input.current?.click()} disabled={busy !== ""} title="Sessions of agents, request logs or exports; or drop their files on this page">
        {busy ? `Importing ${busy}…` : "Import"}
      </button>
      <input
        ref={input}
        class="hidden"
        type="file"
        multiple
        tabIndex={-1}
        aria-label="Files to import"
        onChange={(event) => {
          const { files } = event.currentTarget;
          void take(files).finally(() => input.current && (input.current.value = ""));
        }}
      />
      {over && <div class="dropping">Drop files with sessions to open them</div>}
    </>
  );
}

/** Return the exports in a file: its own, or those of the sessions that the service finds in it. */
async function readSessions(file: File): Promise<object[]> {
  const parsed = await file.text().then(JSON.parse).catch(() => null);
  if (Array.isArray(parsed?.branches)) return [parsed];
  const { sessions } = await request<OpenedFileView>("open_file", { name: file.name, content: await base64Of(file) });
  return sessions.map(({ data }) => data);
}

async function base64Of(file: File): Promise<string> {
  const reader = new FileReader();
  await new Promise((done, fail) => {
    reader.onload = done;
    reader.onerror = () => fail(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
  return String(reader.result).split(",")[1] ?? "";
}
