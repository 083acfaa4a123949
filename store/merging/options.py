"""The options of `wane merge` and `wane export`."""

from __future__ import annotations

import argparse
from collections.abc import Callable

MERGE = (
    "merge",
    "bring what other stores hold into one store; each commit of each site counts once",
    "wane merge centre.duckdb shops/*.duckdb --prefix",
    "A site is a store, or a file of changes. Only what is new is brought, and nothing twice",
)
EXPORT = (
    "export",
    "write a small file of what a store holds, or of what has changed, for `wane merge`",
    "wane export --store shop17.duckdb --since 41.5f0c… --to shop17-41.changes",
    "Files that are lost, sent again or out of order do no harm: merging says what is missing",
)

Command = tuple[argparse.ArgumentParser, Callable[[argparse.Namespace], None]]  # and what it runs


def add_merging_options(merge: Command, export: Command) -> None:
    for add, (command, run) in ((_add_merge, merge), (_add_export, export)):
        add(command)
        command.add_argument("--json", action="store_true", help="print JSON")
        command.set_defaults(run=run)


def _add_merge(merge: argparse.ArgumentParser) -> None:
    add = merge.add_argument
    add("centre", metavar="CENTRE", help="the store that all is brought into")
    add("sites", nargs="+", metavar="SITE", help="a store or an exported file, or NAME=FILE")
    add(
        "--prefix",
        action="store_true",
        help="call the sources of a site NAME/source, by the name of its file or NAME, at its first merge",
    )
    add(
        "--replace",
        action="store_true",
        help="take a store that was restored from a backup, or made anew, in place of what is held of it",
    )


def _add_export(export: argparse.ArgumentParser) -> None:
    add = export.add_argument
    add("--store", required=True, metavar="FILE", help="the store's DuckDB file")
    add("--to", required=True, metavar="FILE", help="the file to be written")
    add("--since", metavar="COMMIT", help="only what was written after this commit, as merge or export named it")
