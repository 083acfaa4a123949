"""wane's command line: thin over the packages, each command with an example in its help."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from sketches.decay import EXAMPLES, format_duration, parse_decay
from sketches.errors import QuestionError, WaneError
from sketches.events import MAX_TIME
from sketches.question import AGGREGATES, Question

_SHOWN_GAPS = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, or 2 where the user can mend what was asked."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except WaneError as error:
        print(f"wane: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="wane",
        description="Decide after the fact how the past should fade: decayed aggregates from small sketches.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n"
        "  wane demo\n"
        "  wane query --store wane.duckdb --stream calls --aggregate mean --decay exp:half_life=30m\n"
        "  wane info --store wane.duckdb\n"
        "  wane decay poly:alpha=1.5,unit=1m\n\n"
        "This version holds the sketches and the store; the Spark job and the dashboard build on them.",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _query_options(commands)
    info = _command(
        commands, "info", "show what a store holds, and what is wrong with it", "wane info --store wane.duckdb"
    )
    info.add_argument("--store", required=True, metavar="FILE", help="the store's DuckDB file")
    info.add_argument("--json", action="store_true", help="print JSON")
    info.set_defaults(run=_info)
    demo = _command(commands, "demo", "store a generated day of calls and ask questions", "wane demo --calls 200000")
    demo.add_argument("--calls", type=_positive, default=400_000, help="number of calls (default 400000)")
    demo.add_argument("--seed", type=int, default=1, help="seed of the generated data (default 1)")
    demo.add_argument("--store", metavar="FILE", help="keep the store in this file (default: none is kept)")
    demo.set_defaults(run=_demo)
    decay = _command(
        commands, "decay", "show what a decay function does to the past", "wane decay poly:alpha=1.5,unit=1m"
    )
    decay.add_argument("spec", metavar="SPEC", help="one of: " + "  ".join(EXAMPLES.values()).replace("%", "%%"))
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


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, example: str
) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=text, description=text, epilog=f"example: {example}")


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
    for name in ("estimate", "lower", "upper", "confidence"):
        print(f"{name:12} {_shown(shape[name])}")
    for item in shape.get("items", ()):
        print(
            f"  {item['value']!s:24} {_shown(item['estimate']):>12}  {_shown(item['lower'])} to {_shown(item['upper'])}"
        )
    print(f"{'as of':12} {_when(shape['as_of'], unit)}")
    print(f"{'from':12} {shape['epochs']} epochs, {_size(shape['sketch_bytes'])} of {shape['family']} sketches")
    print(f"{'why':12} {shape['why']}")
    print(f"{'guarantee':12} {shape['guarantee']}")
    for gap in shape["missing"]:
        print(f"{'missing':12} {gap['source']} at {_when(gap['start'], unit)}: {gap['reason']}")
    print(f"{'took':12} {shape['elapsed_ms']:.1f} ms")


def _moment(text: str | None, unit: Any) -> int | None:
    if text is None:
        return None
    try:
        moment = int(text)
    except ValueError:
        try:
            stamp = datetime.fromisoformat(text)
        except ValueError:
            raise QuestionError(
                f"--as-of is {text!r}; it must be an integer or an ISO time like 2026-01-31T12:00"
            ) from None
        seconds = (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
        moment = round(seconds * unit.denominator / unit.numerator) if unit is not None else int(seconds)
    if abs(moment) > MAX_TIME:
        raise QuestionError(f"--as-of is {text!r}; times lie between {-MAX_TIME} and {MAX_TIME}")
    return moment


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
        for reject in stream["rejects"]:
            print(f"  rejected     {reject['rows']:,} rows: {reject['reason']}")
        for gap in stream["gaps"][:_SHOWN_GAPS]:
            print(f"  gap          {gap['source']} at {gap['start_text']}: {gap['reason']}")
        if len(stream["gaps"]) > _SHOWN_GAPS:
            print(f"  …            and {len(stream['gaps']) - _SHOWN_GAPS} more gaps; --json lists them all")


def _decay(options: argparse.Namespace) -> None:
    decay = parse_decay(options.spec)
    ages = np.array([0, 1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400], np.float64)
    print(f"{decay.spec}: {decay.decay_class} decay")
    for age, weight in zip(ages.tolist(), decay(ages).tolist(), strict=True):
        print(f"  after {format_duration(age) if age else '0s':>5}  {weight:8.4f}  {'█' * round(40 * weight)}")


def _demo(options: argparse.Namespace) -> None:
    from ingest.demo import run

    if options.store is not None:
        path = Path(options.store)
        if path.exists():
            raise WaneError(f"{path} exists already; give the demo a file of its own")
        run(options.calls, options.seed, path, print)
        print(f"\nAsk on with: wane query --store {path} --stream calls --aggregate mean --decay exp:half_life=30m")
        return
    with tempfile.TemporaryDirectory(prefix="wane-demo-") as folder:
        run(options.calls, options.seed, Path(folder) / "wane.duckdb", print)


if __name__ == "__main__":
    sys.exit(main())
