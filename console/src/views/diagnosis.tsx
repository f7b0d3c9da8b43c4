// Why a session went wrong: what its agent's own compaction removed and a later turn used or read again.
import { plural } from "../format";
import { useReport } from "../parts/request";
import type { SessionData } from "../session";
import type { DiagnosisView } from "../types";

/** `isRecorded`: no call went through ContextRender, so only the agent's compactions can be judged. */
export function Diagnosis({ data, isRecorded }: { data: SessionData; isRecorded: boolean }) {
  const { value } = useReport<DiagnosisView>("diagnose", data.complete ? { session: data.branch.session } : null);
  if (!value || (!isRecorded && value.compactions === 0)) return null;
  const [first, ...others] = value.losses;
  return (
    <section class="card" aria-label="Why did it go wrong?">
      <h2>Why did it go wrong?</h2>
      <p class="verdict">{value.summary}</p>
      {first && <a href={data.to("call", first.turn)}>Turn {first.turn}</a>}
      {others.length > 0 && (
        <details>
          <summary>{plural(others.length, "more value", "more values")} gone</summary>
          <ul>
            {others.slice(0, 50).map(({ turn, summary: sentence }) => (
              <li key={sentence}>
                {sentence} <a href={data.to("call", turn)}>Turn {turn}</a>
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}
