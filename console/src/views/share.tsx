// Read-only links to a session: made, copied, revoked.
import { useState } from "preact/hooks";
import { ask } from "../api";
import { date } from "../format";
import { submitted } from "../parts/controls";
import { Copy } from "../parts/copy";
import { useAsk } from "../parts/load";
import { Failure } from "../parts/notes";
import { Table, text, unseen } from "../parts/table";
import type { LinksView, LinkView } from "../types";

export function Share({ session }: { session: string }) {
  const links = useAsk<LinksView>("list_links", { session });
  const [problem, setProblem] = useState<unknown>(null);
  const change = (walker: string, fields: object) =>
    ask(walker, { session, ...fields }).then(() => {
      setProblem(null);
      links.again();
    }, setProblem);
  const make = submitted((field) => void change("share_session", { days: Number(field("days")), label: field("label") }));
  const found = links.value?.links ?? [];
  const failed = problem ?? links.error;
  return (
    <section class="sharing note" aria-label="Read-only links">
      <p>Whoever has a link sees this session’s views, and nothing else, until it expires or you revoke it.</p>
      {LOOPBACK.test(location.hostname) && (
        <p class="hint">
          These links name {location.host}, which only this machine reaches. For others, serve on an address that they reach (<code>contextrender serve --host</code>) or tunnel to it, and open the console there.
        </p>
      )}
      <form class="row" onSubmit={make}>
        <label>
          Days <input name="days" type="number" min="0.01" max="365" step="any" defaultValue="7" required />
        </label>
        <label>
          For <input name="label" maxLength={100} placeholder="whom or what" />
        </label>
        <button class="primary">Make a link</button>
      </form>
      {failed !== null && <Failure error={failed} />}
      {found.length > 0 && (
        <Table label="Links" columns={COLUMNS}>
          {found.map((link) => (
            <Row key={link.id} link={link} onRevoke={() => void change("end_links", { id: link.id })} />
          ))}
        </Table>
      )}
    </section>
  );
}

const LOOPBACK = /^(localhost|127\..*|\[::1\])$/;

const COLUMNS = [text("For"), text("Until"), text("Link"), unseen("Actions")];

function Row({ link, onRevoke }: { link: LinkView; onRevoke: () => void }) {
  const url = location.origin + link.path;
  return (
    <tr>
      <th scope="row">{link.label || "–"}</th>
      <td>{date(link.ends_at)}</td>
      <td>
        <input readOnly value={url} aria-label={`Link for ${link.label || link.id}`} onFocus={(event) => event.currentTarget.select()} />
      </td>
      <td class="actions">
        <Copy text={url} />
        <button class="danger-quiet" onClick={onRevoke}>
          Revoke
        </button>
      </td>
    </tr>
  );
}
