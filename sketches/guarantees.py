"""What an answer states in words: every number that a guarantee names is put into a sentence here.

A guarantee is made of clauses, joined by "; ". Each clause is made from a number that the interval was made from, or
that was measured on it, and rounds it to the safe side. `tests/support/stated.py` reads every clause back out of the
text and checks its number against the exact answer, so a clause of a new form needs a reader there.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Final

_DIGITS: Final = 3
_DOWN: Final = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
_UP: Final = Context(prec=_DIGITS, rounding=ROUND_CEILING)

NEVER_OUTSIDE: Final = "never outside its bounds"
KEPT_ALL: Final = "exact: every event that counts here was kept"
NO_OTHER: Final = "exact: the bounds leave no other answer"
FROM_SAMPLE: Final = "interval from the sample itself"
FADED: Final = "old epochs have faded, and only as much is known of them"
TAKEN_BACK: Final = "what was taken back may have come elsewhere"
ROWS: Final = "rows count as often as they came"


def at_most(number: float) -> str:
    """A bound from above with three digits, never below itself; one that is a rounded decimal stays that decimal.

    >>> at_most(0.05), at_most(0.12345), at_most(1 / 3)
    ('0.05', '0.124', '0.334')
    """
    return _rounded(number, _UP)


def at_least(number: float) -> str:
    """A bound from below with three digits, never above itself.

    >>> at_least(0.12345)
    '0.123'
    """
    return _rounded(number, _DOWN)


def _rounded(number: float, context: Context) -> str:
    return f"{float(context.create_decimal(f'{number:.12g}')):g}"  # 0.15000000000000002 is 0.15


def clauses(*parts: str) -> str:
    """One guarantee of several clauses, empty ones left out.

    >>> clauses(KEPT_ALL, "", ROWS)
    'exact: every event that counts here was kept; rows count as often as they came'
    """
    return "; ".join(part for part in parts if part)


def likely(probability: float) -> str:
    """With which probability what stands before it holds."""
    return f"with probability {at_least(probability)}"


def wide(width: float, whole: str) -> str:
    """How wide an interval is at the most, as a part of something; for shares and ranks that whole is 1.

    >>> wide(0.05, "the decayed count")
    'the interval is at most 0.05 of the decayed count wide'
    """
    return f"the interval is at most {at_most(width)} of {whole} wide"


def within(error: float, whole: str) -> str:
    """How far an estimate is off at the most."""
    return f"the estimate is within {at_most(error)} of {whole}"


def rank_within(error: float, whole: str) -> str:
    """How far off the rank of a quantile is at the most."""
    return f"rank within {at_most(error)} of the one asked for, of {whole}"


def none_unlisted(share: float) -> str:
    """Which share no value exceeds that a list leaves out."""
    return f"no unlisted value has a share above {at_most(share)}"


def left_out(share: float | None) -> str:
    """The same as a sentence by itself; empty where nothing is known of what a list leaves out.

    >>> left_out(0.123456)
    'No value that is not listed has a share above 0.124'
    """
    if share is None or share >= 1:
        return ""
    above = f"a share above {at_most(share)}" if share else "any share"
    return f"No value that is not listed has {above}"


def none_listed(share: float) -> str:
    """Which share every value of a list has at the least."""
    return f"no listed value has a share below {at_least(share)}"


def lists_hold(confidence: float, *, together: bool) -> str:
    """Whether the intervals of a list hold all at once, or only each by itself."""
    held = "the intervals of the list hold all together" if together else "each interval of the list holds by itself"
    return f"{held}, {likely(confidence)}"


def unplanned(what: str = "", because: str = "") -> str:
    """That the size of a sketch was not chosen for an answer like this, and for what or why not.

    >>> unplanned("times before the newest event")
    'no error was planned for times before the newest event'
    """
    return f"no error was planned for {what}" if what else f"no error was planned for, as {because}"


def kept(share: float) -> str:
    """Which part of the events of a time is kept; empty where it is every one.

    >>> kept(1 / 16)
    'of the events of that time 1 in 16 is kept'
    """
    return "" if share >= 1.0 else f"of the events of that time 1 in {round(1.0 / share):,} is kept"


def inside(confidence: float) -> str:
    """With which probability the bounds hold the exact answer.

    >>> inside(0.95)
    'inside its bounds with probability 0.95'
    """
    return f"inside its bounds {likely(confidence)}"


def aggregated(times: int) -> str:
    """How often counters were merged to be stored, of which each time has widened the bounds."""
    return f"wider because the counters were aggregated {times} times"


def made_of(chance: float, varies: float) -> str:
    """Which part of an error is the sketches' own, and which part is not knowing when in its epoch an event came.

    >>> made_of(0.004, 0.0201)
    'of that 0.004 by the ranks of the sketches and 0.0201 by how the decay varies within an epoch'
    """
    return (
        f"of that {at_most(chance)} by the ranks of the sketches and {at_most(varies)} by how the decay varies within "
        "an epoch"
    )
