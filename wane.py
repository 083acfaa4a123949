"""The command line: reads the options, calls the packages, prints. Each command has an example in its help."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dashboard.api.options import SERVE, add_serve_options
from dashboard.boards.options import BOARD, add_board_commands
from dashboard.options import access_of
from dashboard.options import add_options as add_dashboard_options
from demo.options import DEMO, add_demo_options
from ingest.driver.site_command import SITE, add_site_commands
from ingest.options import INGEST, add_ingest_options
from sketches.durations import format_duration
from sketches.errors import QuestionError, WaneError
from sketches.lazy import imported_when_used
from sketches.vocabulary import EXAMPLES
from store.merging.options import EXPORT, MERGE, add_merging_options
from store.serving.query_options import add_query_options

if TYPE_CHECKING:
    import duckdb

    from sketches.units import TimeUnit

__getattr__ = imported_when_used(__name__, {"ingest": ["sketch", "commit_batch"]})
_ONLY_READING: Final = frozenset({"query", "sql", "info", "decay", "serve"})


def register(connection: duckdb.DuckDBPyConnection, store: str | Path, name: str = "wane") -> None:
    """Let a DuckDB session ask a store: SELECT * FROM wane('SELECT source, mean(loss) FROM calls GROUP BY source')."""
    from store.serving.sql.duckdb_function import register as register_function
    from store.serving.store import Store

    register_function(connection, Store(store), name)


def run() -> None:
    """What the command `wane` runs. A command that only reads has closed all files when it returns: then its process
    ends at once, without freeing everything piece by piece, which takes as long as many an answer."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # half of numpy's import would be starting threads for matrices
    if _ONLY_READING.intersection(sys.argv[1:2]):
        gc.disable()  # nothing becomes garbage before it ends, and looking for it takes longer than most imports
    code = main()
    if not _ONLY_READING.intersection(sys.argv[1:2]):
        sys.exit(code)
    with suppress(BrokenPipeError, ValueError):  # whoever reads our output has closed the pipe
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. The exit code is 0, or 2 where the user can correct the command; ingest has further ones."""
    options = _parser().parse_args(arguments)
    try:
        if getattr(options, "store", None) == "":
            raise QuestionError("--store is empty; it must be the store's file, like wane.duckdb")
        code = options.run(options)
    except WaneError as error:
        print(f"wane: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        print("wane: interrupted", file=sys.stderr)
        return getattr(error, "exit_code", 130)
    except BrokenPipeError:  # whoever reads our output has closed the pipe
        sys.stderr.close()
        return 0
    return code or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="wane",
        description="Decide after the fact how the past should fade: decayed aggregates from small sketches.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n"
        "  wane demo\n"
        "  wane ingest --config wane.toml\n"
        "  wane query --store wane.duckdb --stream calls --aggregate mean --decay exp:half_life=30m\n"
        '  wane sql --store wane.duckdb "SELECT source, count(*) FROM calls GROUP BY source WINDOW INTERVAL 1 DAY"\n'
        "  wane dashboard --store wane.duckdb\n"
        "  wane decay poly:alpha=1.5,unit=1m",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    ingest = _command(commands, *INGEST)
    add_ingest_options(ingest)
    ingest.set_defaults(run=_ingest)
    _query_options(commands)
    _sql_options(commands)
    _keeping_options(commands)
    _dashboard_options(commands)
    add_serve_options(_command(commands, *SERVE))
    add_board_commands(_command(commands, *BOARD))
    add_site_commands(_command(commands, *SITE))
    demo = _command(commands, *DEMO)
    add_demo_options(demo)
    demo.set_defaults(run=_demo)
    decay = _command(commands, "decay", "show the weight of events by their age", "wane decay poly:alpha=1.5,unit=1m")
    known = "  ".join(EXAMPLES.values()).replace("%", "%%")
    decay.add_argument("spec", metavar="SPEC", help=f"one of: {known}; each may end in ,window=1d")
    decay.set_defaults(run=_decay)
    return parser


def _query_options(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    query = _command(
        commands,
        "query",
        "ask a store one question",
        "wane query --store wane.duckdb --stream calls --source north --aggregate correlated-mean "
        "--decay window:1h --tau median",
    )
    add = query.add_argument
    add("--store", required=True, metavar="FILE", help="the store's DuckDB file")
    add_query_options(query)
    add("--json", action="store_true", help="print JSON")
    query.set_defaults(run=_query)


def _sql_options(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sql = _command(
        commands,
        "sql",
        "ask a store in SQL: streams are tables, and DECAY BY says how the past fades",
        'wane sql --store wane.duckdb "SELECT source, mean(loss) FROM calls GROUP BY source '
        'DECAY BY exp(half_life => INTERVAL 30 MINUTES)"',
        "SHOW STREAMS lists the streams, DESCRIBE their columns; EXPLAIN says how a statement would be answered",
    )
    add = sql.add_argument
    add("--store", required=True, metavar="FILE", help="the store's DuckDB file")
    add("--format", choices=("table", "csv", "json"), default="table", help="how to print the answer (default table)")
    add("--json", action="store_const", const="json", dest="format", help="print JSON, like --format json")
    add(
        "statement",
        nargs="?",
        metavar="STATEMENT",
        help="the statement (default: standard input; at a terminal, a prompt)",
    )
    sql.set_defaults(run=_sql)


def _keeping_options(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "show what a store holds, and which sketches are missing"
    info = _command(commands, "info", text, "wane info --store wane.duckdb")
    info.set_defaults(run=_info)
    text = "write a store's file anew, without free room and without a byte of what was deleted"
    compact = _command(commands, "compact", text, "wane compact --store wane.duckdb --dry-run")
    compact.add_argument("--dry-run", action="store_true", help="say what it would save, and change nothing")
    compact.set_defaults(run=_compact)
    forget = _command(
        commands,
        "forget",
        "take events out of a store for good: a stream, a source, a range of times",
        "wane forget --store wane.duckdb --stream calls --source north --from 2026-01-01 --to 2026-01-08",
        "Samples lose exactly these events. What another family cannot take out is dropped, and the command says so",
    )
    add = forget.add_argument
    add("--stream", required=True, metavar="NAME", help="without --source, --from and --to: the whole stream")
    add("--source", action="append", default=[], metavar="S", help="only this source; may be given several times")
    add("--from", dest="begin", metavar="T", help="only events from this time on: ISO, or an integer in the unit")
    add("--to", dest="end", metavar="T", help="only events before this time")
    forget.set_defaults(run=_forget)
    add_merging_options((_command(commands, *MERGE), _merge), (_command(commands, *EXPORT), _export))
    for command in (info, compact, forget):
        command.add_argument("--store", required=True, metavar="FILE", help="the store's DuckDB file")
        command.add_argument("--json", action="store_true", help="print JSON")


def _dashboard_options(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    dashboard = _command(
        commands,
        "dashboard",
        "show a store in the browser: choose a decay, and see the answer and its bounds change",
        "wane dashboard --store wane.duckdb",
        "It only reads the store and makes no request to other servers. Only this machine can open it, unless --host "
        "says otherwise; then it needs a log-in, --token-file or --access",
    )
    add_dashboard_options(dashboard)
    dashboard.set_defaults(run=_dashboard)


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, example: str, more: str = ""
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name, help=text, description=f"{text}. {more}".rstrip(". "), epilog=f"example: {example}"
    )


def _compact(options: argparse.Namespace) -> None:
    from store import compact

    found = compact(options.store, dry_run=options.dry_run)
    print(json.dumps(found.as_dict()) if options.json else found.sentence())


def _forget(options: argparse.Namespace) -> None:
    from sketches.units import SECOND
    from store import Store, forget

    stored = Store(options.store).catalogue(options.stream).streams.get(options.stream)
    unit = SECOND if stored is None else stored.unit
    begin, end = (None if text is None else _moment(text, unit) for text in (options.begin, options.end))
    found = forget(options.store, options.stream, sources=options.source, begin=begin, end=end)
    print(json.dumps(found.as_dict()) if options.json else "\n".join(found.lines()))


def _merge(options: argparse.Namespace) -> None:
    from store.merging.merge_command import merge

    found = merge(options.centre, options.sites, prefix=options.prefix, replace=options.replace)
    print(json.dumps(found.as_dict()) if options.json else "\n".join(found.lines()))


def _export(options: argparse.Namespace) -> None:
    from store import export

    found = export(options.store, options.to, since=options.since)
    print(json.dumps(found.as_dict()) if options.json else "\n".join(found.lines()))


def _query(options: argparse.Namespace) -> None:
    from store.serving.patience import saying
    from store.serving.query_command import ask, shape, unit_of
    from store.serving.store import Store

    store = Store(options.store)
    with saying(f"Reading the sketches of {options.stream}, and answering"), store.held_open():
        answer = ask(store, options, datetime.now(UTC))
        unit = unit_of(store, options.stream)
    if options.json:
        print(json.dumps(shape(answer, options), ensure_ascii=False))
    else:
        print(*answer.lines(unit), sep="\n")


def _sql(options: argparse.Namespace) -> None:
    from store.serving.sql_command import run as run_sql

    run_sql(options, sys.stdin, print)


def _moment(text: str, unit: TimeUnit) -> int:
    from store.serving.timeline import read_moment

    return read_moment(text, unit, datetime.now(UTC))


def _info(options: argparse.Namespace) -> None:
    from store.serving.patience import saying
    from store.serving.report import report, report_lines

    with saying("Reading and checking every sketch"):
        found = report(Path(options.store))
    if options.json:
        print(json.dumps(found, ensure_ascii=False, default=str))
        return
    for line in report_lines(found, options.store):
        print(line)


def _decay(options: argparse.Namespace) -> None:
    import numpy as np

    from sketches.decay import parse_decay
    from sketches.decay.functions import LastEvents

    decay = parse_decay(options.spec)
    ages = np.array([0, 1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400], np.float64)
    if isinstance(decay, LastEvents):
        print(f"{decay.spec}: the newest {decay.count:,.0f} events, whatever their ages")
        return
    print(f"{decay.spec}: {decay.decay_class} decay")
    newest = float(decay(0.0))
    if newest != 1.0:
        print(f"  the newest event counts {newest:g} times")
    for age, weight in zip(ages.tolist(), decay(ages).tolist(), strict=True):
        bar = "█" * round(40 * weight / (newest or 1.0))
        print(f"  after {format_duration(age) if age else '0s':>5}  {weight:8.4f}  {bar}")


def _ingest(options: argparse.Namespace) -> int:
    from ingest.driver.ingest_command import ingest

    return ingest(options)


def _demo(options: argparse.Namespace) -> None:
    from demo.run import run
    from ingest.driver.run_options import RunOptions
    from sketches.units import SECOND

    if options.engine == "local" and options.master:
        raise QuestionError("--master is for Spark, and --engine local does without")
    chosen = RunOptions(options.master, engine=options.engine)
    end = int(datetime.now(UTC).timestamp()) if options.end is None else _moment(options.end, SECOND)
    store = run(Path(options.folder), options.calls, options.seed, end, chosen, print)
    print("Ask more, or see what was stored and what was rejected:")
    print(f"  wane query --store {store} --stream calls --aggregate mean --decay exp:half_life=30m")
    print(f"  wane info --store {store}")
    print(f"  wane dashboard --store {store}")
    if not options.no_dashboard:
        from dashboard.door.access import Access
        from dashboard.launch import serve

        serve(store, Access(port=options.port))


def _dashboard(options: argparse.Namespace) -> None:
    from dashboard.launch import serve

    access, boards = access_of(options), (options.boards or "", options.annotations or "", options.edit)
    asked = {"api": options.api, "record": options.record}
    serve(options.store, access, raw=options.raw, boards=boards, **asked, verbose=options.verbose)


if __name__ == "__main__":
    run()
