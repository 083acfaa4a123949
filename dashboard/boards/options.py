"""The command `wane board`: whoever reads its help loads no more than this."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from sketches.errors import WaneError

BOARD: Final = ("board", "write a board as a file, or check all boards", "wane board export calls --store wane.duckdb")


def add_board_commands(parser: argparse.ArgumentParser) -> None:
    """Add `export` and `check` to the command's parser."""
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    export = commands.add_parser(
        "export",
        help="write a board as one HTML file that needs no network",
        description="Answer all panels of a board, and write figures, bounds and words as one HTML file that needs no "
        "network. It shows what the store held then, to whoever gets the file.",
        epilog="example: wane board export calls --store wane.duckdb --out calls.html",
    )
    export.add_argument("name", metavar="NAME", help="the board: the name of its file without .toml")
    export.add_argument("--out", metavar="FILE", help="the file to write, - for standard output (default NAME.html)")
    export.add_argument(
        "--as-of", default="", metavar="T", help="answer all panels as of this ISO time (default: the newest events)"
    )
    export.add_argument("--annotations", metavar="FILE", help="a file of annotations, as `wane dashboard` takes it")
    export.set_defaults(run=_export)
    check = commands.add_parser(
        "check",
        help="say what is wrong with the boards of a store",
        description="Read all boards and saved views, and say what is wrong with them. The exit code is 2 if anything "
        "is.",
        epilog="example: wane board check --store wane.duckdb",
    )
    check.set_defaults(run=_check)
    for command in (export, check):
        command.add_argument("--store", required=True, metavar="FILE", help="the store's DuckDB file")
        command.add_argument("--boards", metavar="DIR", help="the folder of boards (default: boards beside the store)")


def _export(options: argparse.Namespace) -> None:
    from dashboard.boards.commands import export  # noqa: PLC0415  help does not need it

    text = export(Path(options.store), options.boards, options.name, options.as_of, options.annotations)
    if options.out == "-":
        sys.stdout.write(text)
        return
    from dashboard.boards.board_folder import write_whole  # noqa: PLC0415  likewise

    out = Path(options.out or f"{options.name}.html")
    write_whole(out, text.encode())
    print(f"{out}: {len(text.encode()) / 1e6:.1f} MB")  # noqa: T201  the command line prints


def _check(options: argparse.Namespace) -> None:
    from dashboard.boards.commands import faults  # noqa: PLC0415  help does not need it
    from sketches.formatting import counted  # noqa: PLC0415  likewise

    boards, found = faults(Path(options.store), options.boards)
    for line in found:
        print(line)  # noqa: T201  the command line prints
    if found:
        raise WaneError(f"{counted(len(found), 'fault')} in {counted(boards, 'board')}")
    print(f"{counted(boards, 'board')}, no fault")  # noqa: T201  likewise
