"""The report as tables."""

from typing import Any

from rich.console import RenderableType

from evaluation.report import console, table

Report = dict[str, Any]
Row = dict[str, Any]


def show(report: Report) -> None:
    """Prints it to stdout."""
    out = console()
    machine = report["machine"]
    out.print(
        f"{machine['system']}, {machine['processors']} x {machine['processor']}, "
        f"Python {machine['python']}; load before it {machine['load']}; {report['seconds']} s.\n"
        "Milliseconds unless it says so.\n"
    )
    for part in (_renders, _growth, _other, _peers, _footprint, _pauses, _goals):
        for made in part(report):
            out.print(made)


def _renders(report: Report) -> list[RenderableType]:
    made = table(
        "",
        *("results", "where", "p50", "p95", "p99", "p99/p50", "floor", "x floor"),
        *("nothing\nnew", "synced\nwrite"),
        left=2,
    )
    for place, name in (("in_process", "in process"), ("http", "over HTTP")):
        for calls in report[place]:
            render = calls["render"]
            made.add_row(
                f"{calls['results']:,}",
                name,
                *(f"{render[share]:.1f}" for share in ("p50", "p95", "p99")),
                f"{render['p99'] / render['p50']:.1f}",
                f"{calls['floor']:.1f}",
                f"{render['p50'] / calls['floor']:.1f}",
                f"{calls['repeat']['p50']:.1f}",
                f"{calls['disk']['p50']:.1f}",
            )
    return [
        "[bold]Render: one new call and its result of 2 KB, or nothing new[/]",
        made,
        "Floor: NumPy's arithmetic on arrays of that size, tiktoken's count of the new messages, "
        "and one synced\nwrite to an SQLite file of its own, all alone.\n",
    ]


def _growth(report: Report) -> list[RenderableType]:
    made = table(
        "",
        *("results", "arithmetic\nalone", "counting\nalone", "engine:\nrecord"),
        *("engine:\nrender", "sync,\none turn", "render,\none turn", "first sync,\na result"),
        "explain",
    )
    for engine, calls in zip(report["engine"], report["in_process"], strict=True):
        made.add_row(
            f"{calls['results']:,}",
            *(f"{calls[part]['p50']:.2f}" for part in ("arithmetic", "counting")),
            *(f"{engine[part]['p50']:.2f}" for part in ("record", "render")),
            *(f"{calls[part]['p50']:.1f}" for part in ("record", "render", "bulk", "explain")),
        )
    return ["[bold]What grows with what is recorded (in process, p50)[/]", made]


def _other(report: Report) -> list[RenderableType]:
    made = table("", "", "p50", "p99")
    ingest, restart, client = report["ingest"], report["restart"], report["client"]
    events = f"{ingest['results'] * 3:,} events"
    rows = [
        (f"sync, an event ({events}, a message a request)", ingest["event_1"]),
        (f"sync, an event ({events}, 100 messages a request)", ingest["event_100"]),
        *(
            (f"render, working set dropped, {cold['events']:,} events", cold["cold"])
            for cold in report["cold"]
        ),
        ("server start until it answers", restart["ready"]),
        (f"then its first render, {restart['events']:,} events", restart["first"]),
        ("HTTP round trip alone (GET /healthz)", report["round_trip"]),
        (f"Python client's render, {client['results']:,} results", client["render"]),
    ]
    for name, times in rows:
        made.add_row(name, f"{times['p50']:.2f}", f"{times['p99']:.2f}")
    return ["[bold]Other calls (in process, unless they need a server)[/]", made]


def _peers(report: Report) -> list[RenderableType]:
    if "peers" not in report:
        return []
    renders = {calls["results"]: calls["render"]["p50"] for calls in report["in_process"]}
    made = table(
        "",
        *("", "results", "p50", "x render", "tokens left", "orphans", "task kept"),
    )
    for cold in report["cold"]:
        if (results := cold["results"]) in renders:
            row = {"results": results, **cold["shown"]}
            _add_judged(made, "ContextRender, in process", row, renders[results], renders)
    for row in report["peers"]:
        if problem := row.get("unavailable") or row.get("error"):
            made.add_row(f"{row['name']}: {problem}", *[""] * 6)
        else:
            _add_judged(made, row["name"], row, row["p50"], renders)
    versions = sorted({pin for row in report["peers"] for pin in row.get("requirements", ())})
    return [
        "[bold]Beside it: other libraries on the same runs, budget 6,000 tokens of o200k_base[/]",
        made,
        f"x render: of our render in process at that size. Versions: {', '.join(versions)}.\n",
    ]


def _add_judged(made: Any, name: str, row: Row, p50: float, renders: dict[int, float]) -> None:
    made.add_row(
        name,
        f"{row['results']:,}",
        f"{p50:.1f}",
        f"{p50 / renders[row['results']]:.1f}",
        f"{row['tokens']:,}",
        f"{row['orphans']:,}",
        "yes" if row["has_task"] else "no",
    )


def _footprint(report: Report) -> list[RenderableType]:
    held, server, database = report["working_set"], report["server"], report["database"]
    made = table("", "rows", "a result", "bytes each", "share of file")
    for kind in database["kinds"]:
        each, share = f"{kind['bytes']:,.0f}", f"{kind['share']:.0%}"
        made.add_row(kind["kind"], f"{kind['rows']:.1f}", each, share)
    size = f"{database['bytes']:,.0f} bytes a result, its call and messages included"
    return [
        f"[bold]Database: {size}[/]",
        made,
        f"Memory of {held['results']:,} results in the working set: {held['bytes'] / 1e6:.1f} MB "
        f"(own estimate {held['estimated'] / held['bytes']:.0%} of it; texts "
        f"{held['texts'] / 1e6:.1f}, values {held['values'] / 1e6:.1f}, vectors "
        f"{held['vectors'] / 1e6:.1f} MB).\nServer: {server['before'] / 1e6:.0f} MB resident "
        f"at the start, {server['after'] / 1e6:.0f} MB after its first {server['results']:,} "
        "results in one request.\n",
    ]


def _pauses(report: Report) -> list[RenderableType]:
    made = table(
        "",
        *("results", "slowest", "with a\ncheckpoint", "with a\ncollection"),
        *("a checkpoint\nadds", "collecting,\nof all time"),
    )
    for row in report["pauses"]:
        made.add_row(
            f"{row['results']:,}",
            f"{row['slowest']}",
            f"{row['slowest_with_checkpoint']}",
            f"{row['slowest_collecting']}",
            f"{row['checkpoint_ms']:.1f} ms",
            f"{row['collecting_share']:.1%}",
        )
    collection = report["collection"]
    return [
        "[bold]The slowest hundredth of the renders in process, and what was in them[/]",
        made,
        f"A full garbage collection takes {collection['exempting']:.1f} ms; were the loaded "
        f"modules not exempt, {collection['everything']:.0f} ms.\n",
    ]


def _goals(report: Report) -> list[RenderableType]:
    made = table("", "goal", "here", "at most", "")
    for goal in report["goals"]:
        unit = goal["unit"]
        verdict = "met" if goal["met"] else "not met"
        made.add_row(goal["what"], f"{goal['value']:.1f} {unit}", f"{goal['most']} {unit}", verdict)
    return [made]
