"""The options of one question to a store, for `wane query` and the HTTP door alike: listing them loads no numerics."""

from __future__ import annotations

import argparse

from sketches.question_options import add_options


def add_query_options(parser: argparse.ArgumentParser) -> None:
    """Add what is asked, and of which stream and sources."""
    add = parser.add_argument
    add("--stream", required=True, metavar="NAME", help="the stream that is asked")
    add("--source", action="append", default=[], metavar="S", help="only this source; may be given several times")
    add("--other", metavar="SOURCE", help="the second source of an inner product")
    add_options(parser)
    add(
        "--by",
        metavar="FIELD",
        help="the answer of each source (--by source), or of each value of a field, ranked; "
        "--top K says how many are listed",
    )
    add("--smallest", action="store_true", help="with --by: the smallest answers first")
    add("--family", metavar="F", help="answer from this family instead of the one wane picks")
