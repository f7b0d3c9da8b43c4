"""Create, list or revoke share links, which are read-only, to one session."""

import argparse
import time
from urllib.parse import urlsplit

from rich.console import Console

from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.common import ServiceClient, agent_text, new_table
from contextrender_bridge.client.credentials import LOOPBACK
from contextrender_bridge.printing import add_json, print_json, print_notice


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender share`."""
    parser.add_argument("session", metavar="SESSION")
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument(
        "--days", type=float, default=7.0, metavar="N", help="days until it expires (%(default)g)"
    )
    actions.add_argument("--list", action="store_true", help="list the valid links")
    actions.add_argument("--revoke", metavar="ID", help="revoke a link, or `all`")
    parser.add_argument("--label", default="", metavar="TEXT", help="a name for the link")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Create a link and print it. With --list or --revoke, print the valid links instead.

    --revoke first revokes one link, or all.
    """
    with ServiceClient() as service:
        if args.list:
            return print_links(service, args, service.ask("list_links", session=args.session))
        if args.revoke is not None:
            link_id = None if args.revoke == "all" else args.revoke
            view = service.ask("revoke_links", session=args.session, id=link_id)
            return print_links(service, args, view)
        fields = {"session": args.session, "days": args.days, "label": args.label}
        link = service.ask("share_session", **fields)
    link["url"] = service.url + link["path"]
    if args.json:
        return print_json(link)
    print(link["url"])
    if urlsplit(service.url).hostname in LOOPBACK:
        print_notice("this address works only on this machine.")
    return 0


def print_links(service: ServiceClient, args: argparse.Namespace, view: Json) -> int:
    """Print the links in a reply of the service, as a table or as JSON. Return 0."""
    links = [{**link, "url": service.url + link["path"]} for link in view["links"]]
    if args.json:
        return print_json({**view, "links": links})
    if not links:
        print("there are no links to this session")
        return 0
    table = new_table()
    for title in ("id", "label", "ends", "link"):
        table.add_column(title, overflow="fold")
    for link in links:
        expiry = time.strftime("%Y-%m-%d %H:%M", time.localtime(link["expires_at"]))
        table.add_row(link["id"], agent_text(link["label"]), expiry, link["url"])
    Console(highlight=False).print(table)
    return 0
