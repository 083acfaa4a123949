"""The stretch at the start of the data in which a decayed sum or count rises because the decay still fills up."""

from __future__ import annotations

import math
from typing import Final

from dashboard import wording
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import View
from sketches.decay.weighed_time import fills_by
from sketches.formatting import moment_text
from store.serving.catalogue import StoredStream

GROWING: Final = ("sum", "count", "range-sum", "correlated-sum", "correlated-count", "self-join", "inner-product")


def stretch(answers: AnswerCache, view: View, stream: StoredStream) -> tuple[int, int] | None:
    """From the first event to the time by which 95% of what the decay can weigh is there; None where nothing rises:
    means, shares and rates do not, and without fading a sum is a running total."""
    known = answers.extent(view, stream)
    if view.aggregate not in GROWING or known is None:
        return None
    oldest, newest = known
    unit = stream.unit
    seconds = fills_by(view.fading, (newest - oldest) * unit.numerator / unit.denominator)
    if math.isinf(seconds):
        return None
    return oldest, oldest + math.ceil(seconds * unit.denominator / unit.numerator)


def sentence(filling: tuple[int, int] | None, view: View, stream: StoredStream, first: int, last: int) -> str:
    """What to know about the rise between two times; empty where the stretch does not reach there."""
    if filling is None or last < filling[0] or first >= filling[1]:
        return ""
    zone = wording.zone(view.zone)
    begin, end = (moment_text(at, stream.unit, zone) for at in filling)
    return (
        f"The data begin at {begin}, and the decay still fills up until {end}: a rise before then is no rise in the "
        "events."
    )
