"""Since when a field has been missing: it was there before, and in none of the sampled events since.

A column that vanished from the files, or that is empty from some day on, is no fault of any row. But who asks about the
field as of now is answered about events of before.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from sketches.parts import FieldGap
from sketches.sampling.estimation.field_values import field_of

if TYPE_CHECKING:
    from sketches.sampling.estimation.poisson_sample import PoissonSample

_BY_CHANCE: Final = 1e-6  # how likely so many events lack a field that is in as large a share of them as before
_MOST_PRESENT: Final = 0.9  # the share is not taken for larger: a few events may lack what all had before


def field_gap(sample: PoissonSample, name: str, as_of: int) -> FieldGap:
    """Which events up to a time a field is not known of."""
    known = sample.known.get(name)
    if known is None:
        return FieldGap()
    gap = FieldGap(known.unknown_since, known.unknown_until)
    missing = field_of(sample, name).missing
    if missing is None:
        return gap
    present: int | None = sample.leanings.get(("last with", name), lambda: _last(sample.times[~missing]))
    if present is None or as_of <= present or (gap.until is not None and gap.until > present):
        return gap  # it was never there, is there now, or was removed from the settings
    before = sample.times <= present
    share = min(1.0 - float(np.count_nonzero(missing & before)) / np.count_nonzero(before), _MOST_PRESENT)
    gone = int(np.count_nonzero(~before & (sample.times <= as_of)))
    if gone * math.log1p(-share) > math.log(_BY_CHANCE):
        return gap
    return gap._replace(gone_after=present, gone=gone)


def _last(times: np.ndarray) -> int | None:
    return int(times.max()) if len(times) else None
