// Sessions read from files: chosen with a button, or dropped on the page.
import { useEffect, useRef, useState } from "preact/hooks";
import { request } from "../api";
import type { LocalSessionsView, OpenedFileView, SyncView } from "../types";
import { useReport } from "./request";

export interface Props {
  /** Called with the names of the imported sessions. */
  onDone: (sessions: string[]) => void;
  onFailure: (error: unknown) => void;
}

/** A button for files, or a large area while there are no sessions. Files may be dropped anywhere on the page. */
export function Importing({ onDone, onFailure, large }: Props & { large?: boolean }) {
  const input = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const [busy, setBusy] = useState("");
  const take = async (files: FileList | null | undefined) => {
    const imported: string[] = [];
    try {
      for (const file of files ?? []) {
        setBusy(file.name);
        imported.push(...(await importAll(await readSessions(file))));
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
      <button
        class={large ? "drop" : ""}
        onClick={() => input.current?.click()}
        disabled={busy !== ""}
        title="Sessions of agents, request logs or exports; or drop their files on this page"
      >
        {busy ? `Importing ${busy}…` : large ? "Drop files here, or choose them" : "Import"}
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

/** Import the sessions of exports, and return their names. */
async function importAll(exports: object[]): Promise<string[]> {
  const names: string[] = [];
  for (const data of exports) names.push((await request<SyncView>("import_session", { data })).session);
  return names;
}

const AGENTS: Record<string, string> = {
  demo: "A demo run", claude: "Claude Code", codex: "Codex", hermes: "Hermes", openclaw: "OpenClaw", opencode: "opencode", pi: "pi",
};

/** Buttons that import the demo's run, or the newest sessions of an agent on this machine. */
export function LocalSessions({ onDone, onFailure }: Props) {
  const [busy, setBusy] = useState("");
  const local = useReport<LocalSessionsView>("open_local_sessions", {});
  const open = async (agent: string) => {
    setBusy(agent);
    await request<LocalSessionsView>("open_local_sessions", { agent })
      .then(({ sessions }) => importAll(sessions.map(({ data }) => data)))
      .then(onDone, onFailure);
    setBusy("");
  };
  return (
    <div class="pager">
      {[...(local.value?.agents ?? []), "demo"].map((agent) => (
        <button key={agent} disabled={busy !== ""} onClick={() => open(agent)}>
          {busy === agent ? "Reading…" : agent === "demo" ? AGENTS.demo : `Sessions of ${AGENTS[agent]}`}
        </button>
      ))}
    </div>
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
