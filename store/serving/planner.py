"""Which stored family answers: the one whose interval will be the narrowest, by what is stored and never by an answer.

The narrowest of several random intervals covers less often than each of them says, so nothing here looks at an answer
in which chance has a part. How wide an interval to expect a family says itself (`sketches.family.Sketch.promise`), from
its settings and from the totals of the epochs (`sketches.holdings`); all say the width of the same thing.

A stream forgives repeated rows or counts them, by its setting. A family that does the other answers only when asked by
name, or where the stream is known to have no repeats: adding a family must not change the question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

import numpy as np

from sketches.errors import UnanswerableError
from sketches.event_rules import Repeats
from sketches.holdings import Holdings
from sketches.promise import Built, Promise
from sketches.question import Question
from sketches.registry import FAMILIES, family_of
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.epoch_holdings import as_faded, holdings_of
from store.serving.reads.one_commit import Reads

TIE: Final = 1.1  # times the narrowest: within that, bounds that never fail come first
_ROUNDING: Final = 1e-9  # an interval this wide is a point but for rounding
_POINTS: Final = 5  # of a chart, at which widths are compared
_TAILS: Final = frozenset({"correlated-sum", "correlated-count", "correlated-mean", "selectivity"})
_LEAST: Final = 1e-6  # a share of nothing is taken for a small one
_SHARES: Final = frozenset({"selectivity", "rank", "frequency", "range-frequency", "heavy-hitters"})


class Times(Enum):
    """As of which times an answer is: now, a moment of the past, or many, such as those of a chart."""

    NOW = "now"
    PAST = "past"
    MANY = "many"


class Picked(NamedTuple):
    """The family that answers, and why; `at_ends` where it has charts only at the ends of epochs."""

    family: str
    why: str
    at_ends: bool


class _Candidate(NamedTuple):
    promise: Promise
    at_ends: bool


def pick(
    held: StoredStream,
    question: Question,
    wanted: str | None = None,
    times: Times = Times.NOW,
    sources: Sequence[str] | None = None,
    other: Sequence[str] = (),
    *,
    curves: bool = False,
    share: float | None = None,
) -> Picked:
    """The family and why; `sources` are those that are asked, `other` the second side of an inner product, `share` is
    what lies beyond the question's threshold, where that is known.

    `curves`: a whole curve is wanted, so a family that has none comes in only where no other answers.
    """
    past = times is not Times.NOW
    stored = sorted(held.sketches)
    if wanted is not None:
        return Picked(family_of(wanted).family, "asked for", past and not FAMILIES[wanted].abilities.past)
    if not stored:
        raise UnanswerableError(f"stream {held.name!r} holds no sketches yet")
    known = [name for name in stored if name in FAMILIES]
    unknown = [name for name in stored if name not in FAMILIES]
    if not known:
        family_of(stored[0])  # says that this version does not know it
    left_out = f"; stored but not known to this version of wane: {', '.join(unknown)}" if unknown else ""
    apart = [name for name in known if not answers_by_itself(held, name)]
    if apart:
        left_out += f"; left out because {_why_apart(held)}: {', '.join(apart)}"
    if len(stored) == 1 and not apart:  # it says itself why it does not answer
        only = FAMILIES[stored[0]]
        return Picked(only.family, "the only stored family", past and not only.abilities.past)
    holdings = holdings_of(held, held.sources if sources is None else sources), holdings_of(held, other)
    found: dict[str, _Candidate] = {}
    for name in known:
        if name not in apart and (one := _candidate(held, question, name, times, holdings, share)):
            found[name] = one
    if curves and any(FAMILIES[name].abilities.curves for name in found):
        found = {name: one for name, one in found.items() if FAMILIES[name].abilities.curves}
    if not found:
        kept = ", ".join(stored)
        raise UnanswerableError(
            f"none of the stored families ({kept}) answers {question.aggregate} under {question.decay.spec} as it is "
            f"asked here{left_out}{_advice(held, apart)}"
        )
    best = _narrowest(held, found)
    if len(found) == 1:
        why = f"the only stored family that answers {question.aggregate} as it is asked here{left_out}"
        return Picked(best, why, found[best].at_ends)
    others = ", ".join(f"{name} {_words(found[name].promise, question)}" for name in found if name != best)
    expected = f"the narrowest interval to expect: {_words(found[best].promise, question, measure=True)}"
    return Picked(best, f"{expected} (others: {others}){left_out}", found[best].at_ends)


def tail_share(
    reads: Reads,
    catalogue: Catalogue,
    held: StoredStream,
    sources: Sequence[str],
    question: Question,
) -> float | None:
    """Which share of what counts lies beyond a question's threshold; None where no stored family is certain of it.

    Whether a relative error is narrower than an additive one depends on that share alone. What a certain family says of
    it follows from the events, not from chance: so does the pick, and the intervals of the others hold as often as
    before.
    """
    if question.tau is None or question.threshold is not None or question.aggregate not in _TAILS or question.fields:
        return None
    sure = [name for name in held.sketches if name in FAMILIES and FAMILIES[name].abilities.tells_tails]
    sure = [name for name in sure if answers_by_itself(held, name) and not held.lacks_epochs(name)]
    if not sure or len(held.sketches) < 2:
        return None
    selection, _ = reads.selection((held.name, tuple(sources), sure[0]), catalogue)
    try:
        shares = Question("selectivity", question.decay, question.as_of, tau=question.tau)
        found = selection.askable.answer(shares).value if selection.askable is not None else math.nan
    except UnanswerableError:
        return None
    return None if math.isnan(found) else max(found, _LEAST)


def _narrowest(held: StoredStream, found: Mapping[str, _Candidate]) -> str:
    """Families that lack epochs come last, then those with few points on a chart, then the wider ones.

    Of those that are about as narrow as the narrowest the certain ones come first, then the first by name.
    """
    ahead = min((held.lacks_epochs(name), one.at_ends) for name, one in found.items())
    left = {name: one.promise for name, one in found.items() if (held.lacks_epochs(name), one.at_ends) == ahead}
    narrowest = min(promise.width for promise in left.values())
    alike = {name: promise for name, promise in left.items() if promise.width <= TIE * narrowest + _ROUNDING}
    return min(alike, key=lambda name: (not alike[name].certain, alike[name].width, name))


def _words(promise: Promise, question: Question, *, measure: bool = False) -> str:
    """A width in words: as a share, or in percent of the answer; with what it is a width of, where `measure`."""
    width = promise.width
    if width <= _ROUNDING:
        return "exact" if promise.certain else "next to exact"
    if question.aggregate in _SHARES:
        return f"about {width:.2g}{' wide' if measure else ''}"
    of_what = " of the ranks" if question.aggregate in ("quantile", "median") else " of the answer"
    number = f"{100.0 * width:.2g}%" if width < 0.995 else f"{min(width, 1e6):.3g} times"
    if width >= 0.995:
        of_what = of_what.removeprefix(" of")
    return f"about {number}{of_what + ' wide' if measure else ''}"


def answers_by_itself(held: StoredStream, family: str) -> bool:
    """Whether the family treats repeated rows as the stream does, so that it may answer without being asked for."""
    abilities = FAMILIES[family].abilities
    if held.repeats is Repeats.NONE or abilities.tells_repeats:
        return True
    return abilities.forgives_repeats is (held.repeats is Repeats.FORGIVEN)


def counts_rows(held: StoredStream, family: str) -> bool:
    """Whether the family's answers may count an event more than once because its row came more than once."""
    abilities = FAMILIES[family].abilities
    if held.repeats is Repeats.COUNTED and abilities.tells_repeats:
        return True
    return not abilities.forgives_repeats and held.repeats is not Repeats.NONE


def _why_apart(held: StoredStream) -> str:
    if held.repeats is Repeats.COUNTED:
        return "they forgive repeated rows, which this stream counts"
    return "they count repeated rows, which this stream forgives"


def _advice(held: StoredStream, apart: list[str]) -> str:
    if not apart:
        return ""
    other = "forgive" if held.repeats is Repeats.COUNTED else "count"
    return (
        f". Ask for it by name (--family {apart[0]}), or say in the stream's settings that no row repeats "
        f'(unique = true) or repeats = "{other}"'
    )


def _candidate(
    held: StoredStream,
    question: Question,
    name: str,
    times: Times,
    holdings: tuple[Holdings, Holdings],
    share: float | None,
) -> _Candidate | None:
    own = held.described.get(name)
    seconds = held.epoch * held.unit.numerator / held.unit.denominator
    here, there = holdings
    joined = there if question.aggregate == "inner-product" and len(there.events) else None
    stream = holdings_of(held, held.sources)
    settings = own if isinstance(own, Mapping) else {}
    known = as_faded(held, name, here)
    built = Built(
        settings, held.described, seconds, held.weighted, known, joined, stream, held.beginnings.get(name, b""), share
    )
    family = FAMILIES[name]
    at_ends = times is not Times.NOW and not family.abilities.past
    moments: list[int | None] = [question.as_of]
    if times is Times.MANY and not at_ends:
        moments = list(here.spread_over(_POINTS))
    past = times is not Times.NOW and not at_ends
    promises = []
    for moment in moments:
        promise = family.promise(question if moment is None else question.at(moment), built, past=past)
        if promise is None:
            return None
        promises.append(promise)
    width = float(np.median([promise.width for promise in promises]))
    return _Candidate(Promise(width, all(promise.certain for promise in promises)), at_ends)
