// The trace of a value: where it was first seen, which results have it, which turns used it.
import { plural } from "../format";
import type { SessionData } from "../session";
import type { ValueTraceView } from "../types";
import { useReport } from "./request";
import { Closable, Failure, Loading } from "./notes";
import { ResultLinks } from "./links";

export function Trace({ data, value, onClose }: { data: SessionData; value: string; onClose: () => void }) {
  const trace = useReport<ValueTraceView>("trace_value", { ...data.branch, value });
  const view = trace.value?.value === value ? trace.value : null;
  return (
    <section class="card trace" aria-label={`Value ${value}`}>
      <Closable title={<code>{value}</code>} onClose={onClose} />
      {trace.error !== null && <Failure error={trace.error} />}
      {!view && trace.busy && <Loading what="Tracing…" />}
      {view && (
        <>
          <p>
            First seen in <ResultLinks data={data} numbers={[view.first_result]} />
            {data.results[view.first_result] && <span class="muted">, turn {data.results[view.first_result].turn}</span>}
          </p>
          {view.holders.length > 1 && (
            <p>
              Also in <ResultLinks data={data} numbers={view.holders.slice(1, 30)} />
              {view.holders.length > 30 && ` and ${view.holders.length - 30} more`}
            </p>
          )}
          <p>{view.uses.length ? `Used ${plural(view.uses.length, "time")}:` : "Never used."}</p>
          <ol>
            {view.uses.map((use) => (
              <li key={use.event}>
                <a href={data.to("call", use.turn)}>Turn {use.turn}</a>,{" "}
                {use.name ? <code>{use.name}</code> : "text"} <span class="muted">message #{use.position}</span>
              </li>
            ))}
          </ol>
        </>
      )}
    </section>
  );
}
