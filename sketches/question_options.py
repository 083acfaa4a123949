"""The options of `wane query` that make up a question, and the question that they ask.

Listing them for help loads no numerics; only the question itself does.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from sketches.durations import parse_duration
from sketches.errors import QuestionError, WaneError
from sketches.event_rules import WHOLE_NUMBER
from sketches.suggestions import did_you_mean
from sketches.vocabulary import AGGREGATES, COUNTINGS, EVENTS, EXAMPLES, RATE

if TYPE_CHECKING:
    from sketches.predicate import Predicate, StreamColumns
    from sketches.question import Question


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be asked to a command."""
    add = parser.add_argument
    add("--aggregate", required=True, metavar="A", help="one of: " + " ".join((*AGGREGATES, RATE)))
    add("--decay", default="none", metavar="SPEC", help="the decay function, like " + "  ".join(EXAMPLES.values()))
    add(
        "--as-of",
        metavar="T",
        help="an integer in the stream's time unit, an ISO time, or now; default: the newest event of the stream",
    )
    add("--tau", metavar="X", help="threshold (value ≥ X): a number, median, mean, q0.9, or a multiple like 2*median")
    add(
        "--phi",
        type=float,
        action="append",
        default=[],
        metavar="P",
        help="share of a quantile, several times for several quantiles; or least share of a heavy hitter",
    )
    add("--value", metavar="V", help="the value whose rank or frequency is asked for; else only events of this value")
    add("--low", type=_number, metavar="L", help="least value of a range, or of the events that are asked about")
    add("--high", type=_number, metavar="H", help="greatest value of a range, or of the events that are asked about")
    add("--above", type=_number, metavar="X", help="only events whose value is above X")
    add("--below", type=_number, metavar="X", help="only events whose value is below X")
    add(
        "--where",
        metavar="PREDICATE",
        help="only events that satisfy it, like \"value >= 60 and (weight < 5 or source in ('a', 'b'))\": comparisons, "
        "in, between, like 'prefix%%', and, or, not; value >= median(value) compares with an aggregate",
    )
    add("--share", metavar="PREDICATE", help="selectivity: the share of what satisfies it among what --where leaves")
    add(
        "--of",
        metavar="MEASURE",
        help="what is summed, averaged or ranked: value, weight, events or a field (default: sums are of the weight "
        "where the stream has one, else of the value; ranks and lists are of the value)",
    )
    add("--per", metavar="MEASURE", help="ratio: what --of is divided by: value, weight, events or a field")
    add(
        "--counting",
        choices=COUNTINGS,
        help="whether shares, ranks, quantiles and counts count each event once, or as often as its weight says "
        "(default: the stream's setting)",
    )
    add("--top", type=int, metavar="K", help="how many heavy hitters (default 10)")
    add(
        "--confidence",
        type=float,
        metavar="C",
        help="confidence of the interval (default: what the sketch planned for)",
    )


def question_of(options: argparse.Namespace, as_of: int | None, columns: StreamColumns | None = None) -> Question:
    """The question that the options ask; a time needs the stream's unit, so it is read before.

    `columns` are those of the stream's events; without it they have no fields.
    """
    from sketches.question import Question

    named = options.of if options.of is None or columns is None else columns.column(options.of)
    aggregate, of = _measured(options.aggregate, named)
    return Question(
        aggregate,
        options.decay,
        as_of=as_of,
        tau=_number_or_text(options.tau),
        phi=options.phi[0] if len(options.phi) == 1 else None,
        phis=tuple(options.phi) if len(options.phi) > 1 else (),
        value=options.value,
        low=options.low,
        high=options.high,
        top=options.top,
        of=of,
        per=options.per if options.per is None or columns is None else columns.column(options.per),
        per_second=options.aggregate == RATE,
        confidence=options.confidence,
        counting=options.counting or ("events" if options.of == "events" else None),
        where=_where(options, columns),
        share=_predicate(options.share, columns),
    )


def _measured(aggregate: str, of: str | None) -> tuple[str, str | None]:
    """The aggregate that sketches know, and what it is of: a rate is a sum or a count, and a sum of events a count."""
    known = (*AGGREGATES, RATE)
    if aggregate not in known:
        raise QuestionError(f"aggregate {aggregate!r} is not one of {', '.join(known)}{did_you_mean(aggregate, known)}")
    if of != EVENTS or aggregate == "ratio":
        return "sum" if aggregate == RATE else aggregate, of
    counts = {"sum": "count", "correlated-sum": "correlated-count", RATE: "count"}
    if aggregate not in counts:
        raise QuestionError(f"--of events goes with {', '.join(counts)}, not with {aggregate!r}: each event is one")
    return counts[aggregate], None


def _where(options: argparse.Namespace, columns: StreamColumns | None) -> Predicate:
    """What restricts the answer: --above, --below and --where together."""
    from sketches.predicate import Predicate, Range, everything

    parts = [_predicate(options.where, columns)]
    if options.above is not None:
        parts.append(Predicate.of(None, value=Range(low=options.above, open_low=True)))
    if options.below is not None:
        parts.append(Predicate.of(None, value=Range(high=options.below, open_high=True)))
    return everything(parts)


def _predicate(text: str | None, columns: StreamColumns | None) -> Predicate:
    from sketches.predicate import EVERY_EVENT, StreamColumns

    return EVERY_EVENT if text is None else (columns or StreamColumns()).parse(text)


def _number(text: str) -> float:
    """A number as it is written: a whole one keeps all its digits."""
    return int(text) if re.fullmatch(WHOLE_NUMBER, text.strip()) else float(text)


def _number_or_text(text: str | None) -> float | str | None:
    if text is None:
        return None
    try:
        return _number(text)
    except ValueError:
        return text


def seconds(text: str) -> float:
    """The seconds of a duration like 10m, as the type of an option."""
    try:
        return parse_duration(text)
    except WaneError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
