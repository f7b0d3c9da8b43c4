// Read-only links to a session: create, copy, revoke.
import { useState } from "preact/hooks";
import { request } from "../api";
import { date } from "../format";
import { submitted } from "../parts/controls";
import { Copy } from "../parts/copy";
import { useReport } from "../parts/request";
import { Failure } from "../parts/notes";
import { actions, type Column, Table, text } from "../parts/table";
import type { LinksView, LinkView } from "../types";

export function Share({ session }: { session: string }) {
  const links = useReport<LinksView>("list_links", { session });
  const [problem, setProblem] = useState<unknown>(null);
  const change = (walker: string, fields: object) =>
    request(walker, { session, ...fields }).then(() => {
      setProblem(null);
      links.again();
    }, setProblem);
  const make = submitted((field) => void change("share_session", { days: Number(field("days")), label: field("label") }));
  const revoke = actions<LinkView>((link) => (
    <>
      <Copy text={urlOf(link)} />
      <button class="danger-quiet" onClick={() => void change("revoke_links", { id: link.id })}>
        Revoke
      </button>
    </>
  ));
  const shareLinks = links.value?.links ?? [];
  const failed = problem ?? links.error;
  return (
    <section class="card" aria-label="Read-only links">
      <p>Anyone with the link can view this session, and nothing else, until it expires or you revoke it.</p>
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
      {shareLinks.length > 0 && (
        <Table label="Links" columns={[...COLUMNS, revoke]} rows={shareLinks} keyOf={({ id }) => id} />
      )}
    </section>
  );
}

const LOOPBACK = /^(localhost|127\..*|\[::1\])$/;

const urlOf = (link: LinkView): string => location.origin + link.path;

const COLUMNS: Column<LinkView>[] = [
  text("For", ({ label }) => label || "–"),
  text("Until", (link) => date(link.expires_at)),
  text("Link", (link) => (
    <input readOnly value={urlOf(link)} aria-label={`Link for ${link.label || link.id}`} onFocus={(event) => event.currentTarget.select()} />
  )),
];
