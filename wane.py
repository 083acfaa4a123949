"""wane's command line: thin over the packages, each command with an example in its help."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from dashboard.launch import LOOPBACK, PORT
from sketches.decay import EXAMPLES, format_duration, parse_decay, parse_duration
from sketches.drawn import SECOND
from sketches.errors import QuestionError, WaneError
from sketches.estimate import outward
from sketches.question import AGGREGATES, Question

_SHOWN_GAPS = 20
_SHOWN_FILES = 20
_SHOWN_EXAMPLES = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, or 2 where the user can mend what was asked; ingest has more of them."""
    options = _parser().parse_args(arguments)
    try:
        code = options.run(options)
    except WaneError as error:
        print(f"wane: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("wane: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe has seen enough
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
        "  wane info --store wane.duckdb\n"
        "  wane dashboard --store wane.duckdb\n"
        "  wane decay poly:alpha=1.5,unit=1m",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _ingest_options(commands)
    _query_options(commands)
    info = _command(
        commands, "info", "show what a store holds, and what is wrong with it", "wane info --store wane.duckdb"
    )
    info.add_argument("--store", required=True, metavar="FILE", help="the store's DuckDB file")
    info.add_argument("--json", action="store_true", help="print JSON")
    info.set_defaults(run=_info)
    _dashboard_options(commands)
    demo = _command(
        commands,
        "demo",
        "generate calls and sensor readings, ingest them with Spark, ask, and open the dashboard",
        "wane demo --folder try",
    )
    demo.add_argument(
        "--folder", default="wane-demo", metavar="DIR", help="a new folder for it all (default wane-demo)"
    )
    demo.add_argument("--calls", type=_positive, default=400_000, help="number of calls (default 400000)")
    demo.add_argument("--seed", type=int, default=1, help="seed of the generated data (default 1)")
    demo.add_argument("--end", metavar="T", help="when the data ends, like 2026-01-31T12:00 (default: now)")
    demo.add_argument("--master", metavar="URL", help="Spark master (default local[*])")
    demo.add_argument("--no-dashboard", action="store_true", help="end after the answers in the terminal")
    demo.add_argument("--port", type=int, default=PORT, metavar="N", help=f"the dashboard's port (default {PORT})")
    demo.set_defaults(run=_demo)
    decay = _command(
        commands, "decay", "show what a decay function does to the past", "wane decay poly:alpha=1.5,unit=1m"
    )
    known = "  ".join(EXAMPLES.values()).replace("%", "%%")
    decay.add_argument("spec", metavar="SPEC", help=f"one of: {known}; each may end in ,window=1d")
    decay.set_defaults(run=_decay)
    return parser


def _ingest_options(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    ingest = _command(
        commands,
        "ingest",
        "take the input files that the store does not know yet; this is what cron runs",
        "wane ingest --config wane.toml --quiet",
        "exit codes: 0 done, or nothing to do; 1 a stream failed, nothing of it is committed and the next run tries "
        "again; 2 the settings or options are wrong; 3 done, but a file has changed or cannot be read; 75 another run "
        "is at work",
    )
    add = ingest.add_argument
    add("--config", default="wane.toml", metavar="FILE", help="the settings file (default wane.toml)")
    add(
        "--master",
        metavar="URL",
        help="Spark master, such as local[4] or spark://host:7077 (default: spark-submit's, or local[*])",
    )
    add("--stream", action="append", default=[], metavar="NAME", help="only this stream; may be given several times")
    add(
        "--backfill",
        metavar="FROM..TO",
        help="replace the epochs of this range by what the input files hold of them now; ISO times or integers of the "
        "stream's time unit, like 2026-01-01..2026-01-08",
    )
    add("--allow-missing", action="store_true", help="backfill although files that were read before are gone")
    add("--dry-run", action="store_true", help="say what a run would do and show ten parsed events; change nothing")
    add("--wait", type=_seconds, default=0.0, metavar="TIME", help="wait so long for another run to end, like 10m")
    add("--conf", action="append", default=[], metavar="K=V", help="a Spark setting, like spark.executor.memory=4g")
    add("--json", action="store_true", help="print the summary as JSON")
    add("--quiet", action="store_true", help="print only what needs a look, so that cron mails only then")
    add("--verbose", action="store_true", help="let Spark's own log through")
    ingest.set_defaults(run=_ingest)


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
    add("--stream", required=True, metavar="NAME")
    add("--source", action="append", default=[], metavar="S", help="only this source; may be given several times")
    add("--aggregate", required=True, metavar="A", help="one of: " + " ".join(AGGREGATES))
    add("--decay", default="none", metavar="SPEC", help="how the past fades, like " + "  ".join(EXAMPLES.values()))
    add("--as-of", metavar="T", help="an integer of the stream's time unit or an ISO time; default: the newest event")
    add("--tau", metavar="X", help="threshold: a number, median, or a quantile like q0.9")
    add("--phi", type=float, metavar="P", help="share of a quantile, or least share of a heavy hitter")
    add("--value", metavar="V", help="the value whose rank or frequency is asked for")
    add("--low", type=float, metavar="L", help="least value of a range")
    add("--high", type=float, metavar="H", help="greatest value of a range")
    add("--top", type=int, metavar="K", help="how many heavy hitters (default 10)")
    add("--other", metavar="SOURCE", help="the second source of an inner product")
    add("--of", choices=("weight", "value"), default="weight", help="what sum and mean are taken of (default weight)")
    add(
        "--confidence",
        type=float,
        metavar="C",
        help="confidence of the interval (default: what the sketch planned for)",
    )
    add("--family", metavar="F", help="answer from this family instead of the one wane picks")
    add("--json", action="store_true", help="print JSON")
    query.set_defaults(run=_query)


def _dashboard_options(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    dashboard = _command(
        commands,
        "dashboard",
        "show a store in the browser: pick how the past fades, and see the answer and its bounds move",
        "wane dashboard --store wane.duckdb",
        "It only reads, makes no outside request, and answers to this machine alone unless --host says otherwise; it "
        "has no log-in of its own",
    )
    add = dashboard.add_argument
    add("--store", required=True, metavar="FILE", help="the store's DuckDB file; it may come later")
    add("--port", type=int, default=PORT, metavar="N", help=f"where to listen (default {PORT})")
    add("--host", default=LOOPBACK, metavar="ADDRESS", help=f"whom to answer to (default {LOOPBACK}, this machine)")
    add("--verbose", action="store_true", help="log what each redraw took")
    dashboard.set_defaults(run=_dashboard)


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, example: str, more: str = ""
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name, help=text, description=f"{text}. {more}".rstrip(". "), epilog=f"example: {example}"
    )


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except WaneError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _positive(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 50_000_000:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 50,000,000")
    return number


def _query(options: argparse.Namespace) -> None:
    from store import Store

    store = Store(options.store)
    held = store.catalogue().streams.get(options.stream)
    unit = held.unit if held is not None else None
    question = Question(
        options.aggregate,
        options.decay,
        as_of=_moment(options.as_of, unit),
        tau=_number_or_text(options.tau),
        phi=options.phi,
        value=options.value,
        low=options.low,
        high=options.high,
        top=options.top,
        of=options.of,
        confidence=options.confidence,
    )
    answer = store.ask(options.stream, question, sources=options.source, family=options.family, other=options.other)
    shape = answer.as_dict()
    if options.aggregate == "heavy-hitters":
        shape.setdefault("items", [])
    if options.json:
        print(json.dumps(shape, ensure_ascii=False))
        return
    low, high = _limits(shape)
    for name, text in (("estimate", _shown(shape["estimate"])), ("lower", low), ("upper", high)):
        print(f"{name:12} {text}")
    print(f"{'confidence':12} {_shown(shape['confidence'])}")
    for item in shape.get("items", ()):
        print(f"  {item['value']!s:24} {_shown(item['estimate']):>12}  {' to '.join(_limits(item))}")
    print(f"{'as of':12} {_when(shape['as_of'], unit)}")
    print(f"{'from':12} {shape['epochs']} epochs, {_size(shape['sketch_bytes'])} of {shape['family']} sketches")
    print(f"{'why':12} {shape['why']}")
    print(f"{'guarantee':12} {shape['guarantee']}")
    for gap in shape["missing"]:
        print(f"{'missing':12} {gap['source']} at {_when(gap['start'], unit)}: {gap['reason']}")
    print(f"{'took':12} {shape['elapsed_ms']:.1f} ms")


def _moment(text: str | None, unit: Any) -> int | None:
    from store.timeline import read_moment

    return None if text is None else read_moment(text, unit or SECOND)


def _number_or_text(text: str | None) -> float | str | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def _shown(number: float | None) -> str:
    if number is None:
        return "unknown"
    return f"{number:,.0f}" if abs(number) >= 1e6 else f"{number:,.6g}"


def _limits(shape: dict[str, Any]) -> tuple[str, str]:
    """The ends of an interval as texts, which are never narrower than the numbers."""
    low, high = shape["lower"], shape["upper"]
    return (
        _shown(None if low is None else outward(low, up=False)),
        _shown(None if high is None else outward(high, up=True)),
    )


def _size(count: float) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


def _when(moment: int, unit: Any) -> str:
    if unit is None:
        return str(moment)
    try:
        stamp = datetime.fromtimestamp(moment * unit.numerator / unit.denominator, UTC)
    except (OverflowError, ValueError, OSError):
        return str(moment)
    return f"{stamp:%Y-%m-%d %H:%M:%S} UTC ({moment})"


def _info(options: argparse.Namespace) -> None:
    from store.report import report

    shape = report(Path(options.store))
    if options.json:
        print(json.dumps(shape, ensure_ascii=False, default=str))
        return
    print(f"{options.store}: {_size(shape['file_bytes'])}, generation {shape['generation']}, {shape['runs']} runs")
    if not shape["streams"]:
        print("It holds no streams yet: `wane ingest` brings some.")
    for stream in shape["streams"]:
        size = f"{stream['events']:,} events of {stream['sources']} sources in {stream['epochs']} epochs"
        print(f"\n{stream['stream']}: {size}")
        print(f"  from {stream['oldest_text']} to {stream['newest_text']}, epochs of {stream['epoch_text']}")
        for family in stream["families"]:
            print(f"  {family['family']:12} {family['sketches']:,} sketches, {_size(family['bytes'])}")
        last = stream["last_run"]
        if last is not None:
            print(
                f"  last run     {last['finished']:%Y-%m-%d %H:%M:%S} UTC: {last['rows']:,} rows, "
                f"{last['late']:,} late, {last['rejected']:,} rejected; {stream['files']:,} files so far"
            )
        for reject in stream["rejects"]:
            print(f"  rejected     {reject['rows']:,} rows: {reject['reason']}")
            for example in reject["examples"][:_SHOWN_EXAMPLES]:
                print(f"               such as {_row(example)}")
        for gap in stream["gaps"][:_SHOWN_GAPS]:
            print(f"  gap          {gap['source']} at {gap['start_text']}: {gap['reason']}")
        if len(stream["gaps"]) > _SHOWN_GAPS:
            print(f"  …            and {len(stream['gaps']) - _SHOWN_GAPS} more gaps; --json lists them all")


def _row(example: Any) -> str:
    """A rejected row as it was found."""
    if not isinstance(example, dict):
        return str(example)
    return ", ".join(f"{name} {'missing' if value is None else repr(value)}" for name, value in example.items())


def _decay(options: argparse.Namespace) -> None:
    decay = parse_decay(options.spec)
    ages = np.array([0, 1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400], np.float64)
    print(f"{decay.spec}: {decay.decay_class} decay")
    for age, weight in zip(ages.tolist(), decay(ages).tolist(), strict=True):
        print(f"  after {format_duration(age) if age else '0s':>5}  {weight:8.4f}  {'█' * round(40 * weight)}")


def _ingest(options: argparse.Namespace) -> int:
    from ingest.job import run
    from ingest.lock import RunningError
    from ingest.planning import Order
    from ingest.progress import Progress
    from ingest.settings import SettingsError, read_settings
    from store import StoreBusyError

    settings = read_settings(options.config)
    progress = Progress(quiet=options.quiet or options.json)
    order = Order(
        options.master,
        options.stream,
        _range(options.backfill, settings, options.stream),
        options.allow_missing,
        options.wait,
        options.verbose,
        dict(_setting(text) for text in options.conf),
    )
    try:
        if options.dry_run:
            from ingest.preview import preview

            return _show_previews(preview(settings, order, progress), settings, json_wanted=options.json)
        summary = run(settings, order, progress)
    except SettingsError:
        raise
    except (RunningError, StoreBusyError) as error:
        print(f"wane: {error}", file=sys.stderr)
        return 75
    except WaneError as error:
        print(f"wane: {error}; nothing was committed", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(summary.as_dict(), ensure_ascii=False))
    for line in summary.problems() if options.quiet or options.json else summary.lines():
        print(line, file=sys.stderr if options.json else sys.stdout)
    return summary.exit_code


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.startswith("spark.") and equals):
        raise QuestionError(f"--conf is {text!r}; it must be like spark.executor.memory=4g")
    return name, value


def _range(text: str | None, settings: Any, chosen: Sequence[str]) -> tuple[int, int] | None:
    """A backfill's range in units of the stream; streams with different units are backfilled one at a time."""
    if text is None:
        return None
    units = {stream.unit for name, stream in settings.streams.items() if not chosen or name in chosen}
    if len(units) > 1:
        raise QuestionError("--backfill needs one --stream, because the streams count time in different units")
    start, dots, end = text.partition("..")
    if not dots:
        raise QuestionError(f"--backfill is {text!r}; it must be FROM..TO, like 2026-01-01..2026-01-08")
    unit = next(iter(units), None)
    moments = (_moment(start.strip(), unit), _moment(end.strip(), unit))
    assert moments[0] is not None
    assert moments[1] is not None
    return moments[0], moments[1]


def _show_previews(previews: Sequence[Any], settings: Any, *, json_wanted: bool) -> int:
    if json_wanted:
        print(json.dumps([vars(found) for found in previews], ensure_ascii=False, default=str))
    for found in () if json_wanted else previews:
        print(f"{found.stream}: {len(found.new)} new files, {found.known} known; nothing is changed by a dry run")
        for path in found.new[:_SHOWN_FILES]:
            print(f"  would read   {path}")
        if len(found.new) > _SHOWN_FILES:
            print(f"  …            and {len(found.new) - _SHOWN_FILES} more")
        if found.replaced:
            unit = settings.streams[found.stream].unit
            print(
                f"  would replace the epochs from {_when(found.replaced[0], unit)} to {_when(found.replaced[1], unit)}"
            )
        for path, original in found.copies.items():
            print(f"  would skip   {path}: it has the content of {original}")
        for path in found.changed:
            print(f"  would report {path}: it has changed since it was read")
        for path, reason in found.unreadable.items():
            print(f"  would leave  {path}: {reason}")
        for event in found.events:
            unit = settings.streams[found.stream].unit
            print(
                f"  event        {event['source']}, id {event['id']}, at {_when(event['time'], unit)}, value "
                f"{event['value']}, weight {event['weight']}"
            )
        for reason, example in found.rejected.items():
            print(f"  would reject {reason}, such as {_row(example)}")
        if found.error:
            print(f"  error        {found.error}")
    return 1 if any(found.error for found in previews) else 0


def _demo(options: argparse.Namespace) -> None:
    from ingest.demo import run

    end = _moment(options.end, SECOND) if options.end is not None else int(datetime.now(UTC).timestamp())
    assert end is not None
    store = run(Path(options.folder), options.calls, options.seed, end, options.master, print)
    print("Ask on, or look at what was stored and rejected:")
    print(f"  wane query --store {store} --stream calls --aggregate mean --decay exp:half_life=30m")
    print(f"  wane info --store {store}")
    print(f"  wane dashboard --store {store}")
    if not options.no_dashboard:
        from dashboard.launch import serve

        serve(store, port=options.port)


def _dashboard(options: argparse.Namespace) -> None:
    from dashboard.launch import serve

    serve(options.store, host=options.host, port=options.port, verbose=options.verbose)


if __name__ == "__main__":
    sys.exit(main())
