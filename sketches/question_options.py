"""The options of `wane query` that make up a question, and the question that they ask.

Listing them for help loads no numerics; only the question itself does.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from sketches.durations import parse_duration
from sketches.errors import WaneError
from sketches.event_rules import WHOLE_NUMBER
from sketches.vocabulary import AGGREGATES, COUNTINGS, EXAMPLES, MEASURES

if TYPE_CHECKING:
    from sketches.predicate import Predicate
    from sketches.question import Question


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be asked to a command."""
    add = parser.add_argument
    add("--aggregate", required=True, metavar="A", help="one of: " + " ".join(AGGREGATES))
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
    add("--where", metavar="PREDICATE", help="only events that satisfy it, like 'value >= 60 and weight < 5'")
    add(
        "--of",
        choices=MEASURES,
        help="what sums and means are of (default: the weight where the stream has one, else the value)",
    )
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


def question_of(options: argparse.Namespace, as_of: int | None) -> Question:
    """The question that the options ask; a time needs the stream's unit, so it is read before."""
    from sketches.question import Question

    return Question(
        options.aggregate,
        options.decay,
        as_of=as_of,
        tau=_number_or_text(options.tau),
        phi=options.phi[0] if len(options.phi) == 1 else None,
        phis=tuple(options.phi) if len(options.phi) > 1 else (),
        value=options.value,
        low=options.low,
        high=options.high,
        top=options.top,
        of=options.of,
        confidence=options.confidence,
        counting=options.counting,
        where=_where(options),
    )


def _where(options: argparse.Namespace) -> Predicate:
    """What restricts the answer: --above, --below and --where together."""
    from sketches.predicate import Predicate, Range, everything

    parts = [Predicate.parse(options.where)] if options.where is not None else []
    if options.above is not None:
        parts.append(Predicate.of(None, value=Range(low=options.above, open_low=True)))
    if options.below is not None:
        parts.append(Predicate.of(None, value=Range(high=options.below, open_high=True)))
    return everything(parts)


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
