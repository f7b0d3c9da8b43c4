"""Run the service until it is interrupted."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from contextrender_bridge.background import report_slow_start
from contextrender_bridge.base.errors import CommandError, NoCredentials, NotWritable
from contextrender_bridge.base.paths import app_dir, data_dir, make_data_private
from contextrender_bridge.base.setting_kinds import as_count
from contextrender_bridge.base.settings import (
    current_settings,
    parse_setting,
    set_for_library,
    set_option,
)
from contextrender_bridge.client.credentials import LOOPBACK, stored_credentials
from contextrender_bridge.listening import address, listen
from contextrender_bridge.local_service import is_service_running, sign_in_code
from contextrender_bridge.process_memory import limit_free_memory
from contextrender_bridge.workers.serving import Worker
from contextrender_bridge.workers.supervisor import Supervisor

MAX_WORKERS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender serve`."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (%(default)s)")
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"data folder ({data_dir()})")
    parser.add_argument(
        "--workers", metavar="N", help="processes that share the port (CONTEXTRENDER_WORKERS)"
    )
    parser.add_argument("--log-format", metavar="FORMAT", help="text or json (text)")
    parser.add_argument("--log-level", metavar="LEVEL", help="from debug to error (warning)")
    parser.add_argument(
        "--idle-timeout",
        type=float,
        metavar="SECONDS",
        help="stop after so long without a request or a running `contextrender wrap`",
    )


def run(args: argparse.Namespace) -> int:
    """Run `contextrender serve` with its options, which override the settings.

    Return the exit code.
    """
    for name, text in (("log_format", args.log_format), ("log_level", args.log_level)):
        if text is not None:
            set_option(name, text)
    # The option for the number of workers is a text, so check it like the setting.
    workers = (
        parse_setting(as_count, args.workers, "--workers")
        if args.workers
        else current_settings().workers
    )
    return serve(
        args.host,
        args.port,
        args.data or data_dir(),
        idle_timeout=args.idle_timeout,
        workers=workers,
    )


def serve(
    host: str,
    port: int,
    data: Path,
    *,
    app: Path | None = None,
    idle_timeout: float | None = None,
    workers: int = 1,
) -> int:
    """Listen, load the app, print that it is ready, and serve until SIGINT or SIGTERM.

    With `idle_timeout`, also stop after that many seconds without use. Several workers are
    processes that share the port and the loaded app. Return the exit code. Raise CommandError if an
    option is invalid, or a server of this data folder already has the address.
    """
    if idle_timeout is not None and workers > 1:
        raise CommandError("--idle-timeout is for one process, not for several workers.")
    if workers > MAX_WORKERS:
        raise CommandError(f"there may be up to {MAX_WORKERS} workers.")
    # Prepare the process and its files, and listen before the app is loaded, so that connections
    # wait instead of failing.
    with suppress(NotWritable):  # The server answers 503 until the folder is writable.
        make_data_private(data)
    limit_free_memory()
    _check_address(host, port, data)
    listener = listen(host, port)
    os.umask(0o077)  # Only the server's user may read the files that it creates.
    url, folder = address(listener, host), app or app_dir()

    def work(worker: Worker) -> int:
        """Run one worker until it ends, and return its exit code."""
        from contextrender_bridge.server.process.worker import run_worker

        return run_worker(
            worker, listener, url=url, data=data, app=folder, idle_timeout=idle_timeout
        )

    ready = partial(_print_ready, url, data)
    if workers == 1:
        return Supervisor(1, work, ready=ready).run()
    # The workers' counts for `/metrics` are files in this folder.
    with tempfile.TemporaryDirectory(prefix="contextrender-figures-") as metrics_folder:
        on_end = _load_for_workers(folder, metrics_folder)
        return Supervisor(workers, work, ready=ready, on_end=on_end).run()


def _check_address(host: str, port: int, data: Path) -> None:
    """Raise CommandError if a server of this data folder already has the address.

    If a server of this data folder runs at another address, print that address.
    """
    with suppress(NoCredentials):
        other = stored_credentials(data)
        parts = urlsplit(other.url)
        is_same = port == parts.port and host in (*LOOPBACK, "0.0.0.0", "::", parts.hostname)
        if not is_service_running(other.url):
            return
        sentence = (
            f"the server of {data} runs already at {other.url}: `contextrender console` opens it"
        )
        if is_same:
            raise CommandError(f"{sentence}; with --port another one serves the same data.")
        print(f"contextrender: {sentence}; this one serves the same data.", file=sys.stderr)


def _print_ready(url: str, data: Path) -> None:
    """Print the server's address, and to a terminal also a link that signs in to the console."""
    print(f"ContextRender is ready at {url} (data in {data.resolve()})", flush=True)
    # The link signs in, so it is printed for a person at a terminal and not into a log.
    if sys.stdout.isatty():
        link = f"{url}/console/#code={sign_in_code(url, data)}"
        print(f"Console (once; `contextrender console` opens it again): {link}", flush=True)


def _load_for_workers(app: Path, metrics_folder: str) -> Callable[[int], None]:
    """Load the app once in this process, from which all workers are forked.

    The workers share their counts for `/metrics` in `metrics_folder`. Return a function to call
    when a worker has ended. It gets the process id, and removes the counts of that worker.
    """
    # A fork does not copy the threads that `tokenizers` would start.
    set_for_library("TOKENIZERS_PARALLELISM", "false")
    # `prometheus_client` reads this when it is imported.
    set_for_library("PROMETHEUS_MULTIPROC_DIR", metrics_folder)
    with report_slow_start():
        from contextrender_bridge.server.process.loading import warm_up
        from contextrender_bridge.server.runtime import load_app
        from prometheus_client.multiprocess import mark_process_dead

        load_app(app)
        warm_up()
    return mark_process_dead
