"""The options of `wane serve`: whoever reads its help loads no more than this."""

from __future__ import annotations

import argparse
from typing import Final

from dashboard.options import add_door_options, add_record_option

PORT: Final = 8502
SERVE: Final = (
    "serve",
    "answer programs over HTTP: Grafana, Prometheus, scripts",
    "wane serve --store wane.duckdb --record wane.toml",
    (
        "It only reads the store. /api/v1/query, /api/v1/series and /api/v1/sql answer questions, /api/v1/streams "
        "lists the streams, /metrics is for Prometheus, /openapi.json describes it all. Only this machine can reach "
        "it, unless --host says otherwise; then it needs a log-in, --token-file or --access"
    ),
)


def add_serve_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to the command's parser."""
    add = parser.add_argument
    add("--store", required=True, metavar="FILE", help="the store's DuckDB file; it need not exist yet")
    add_record_option(parser)
    add_door_options(parser, PORT)
    add("--threads", type=_threads, metavar="N", help="how many questions are answered at a time (default: the cores)")
    parser.set_defaults(run=_serve)


def _threads(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 256:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 256")
    return number


def _serve(options: argparse.Namespace) -> None:
    from dashboard.api.launch import serve  # noqa: PLC0415  help does not need it
    from dashboard.options import access_of  # noqa: PLC0415  likewise

    serve(options.store, access_of(options), record=options.record, threads=options.threads)
