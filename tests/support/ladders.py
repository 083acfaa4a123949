"""Small streams of several sources, samples of them with a capacity of a few events, and their rows for the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sketches import Events, Sample
from sketches.hashing import event_hashes, salt
from sketches.sampling.inclusion.ladder import NO_CUT
from sketches.sampling.inclusion.ladder_parameters import LadderParameters
from sketches.units import SECOND
from tests.support.ladder_oracle import Event, LadderOracle, Row, number

SOURCES = ("north", "south", "west")
WEIGHTS = (0, 0, 1, 1, 2, 7, 99_999, 1 << 40)

Raw = tuple[int, int, int, int, int]  # id, time, value, weight, number of the source


@dataclass(frozen=True)
class Settings:
    """What a ladder keeps; the accuracy that one would ask for does not matter here."""

    capacity: int
    per_source: int = 0
    fine: int = 0
    bits: int = 48
    seed: int = 5

    @property
    def parameters(self) -> LadderParameters:
        derived = LadderParameters.derive(
            0.1, 0.05, SECOND, self.seed, per_source=self.per_source, fine=self.fine, bits=self.bits
        )
        return replace(derived, capacity=self.capacity)

    def oracle(self, raw: Sequence[Raw]) -> LadderOracle:
        return LadderOracle.of(
            rows_of(raw, self), self.capacity, per_source=self.per_source, fine=self.fine, bits=self.bits
        )


def events_of(raw: Sequence[Raw]) -> tuple[Events, Any]:
    ids, times, values, weights, sources = (np.array(column, np.int64) for column in _columns(raw))
    return Events.of(ids, times, values, weights), sources.astype(np.int32)


def sampled(raw: Sequence[Raw], settings: Settings) -> Sample:
    events, sources = events_of(raw)
    return Sample.of_sources(events, sources, SOURCES, settings.parameters)


def rows_of(raw: Sequence[Raw], settings: Settings) -> set[Row]:
    """The rows as the oracle wants them; only the hash is that of the code."""
    ids, times, values, weights, sources = (np.array(column, np.int64) for column in _columns(raw))
    columns = (column.view(np.uint64) for column in (ids, times, values, weights))
    words = event_hashes(*columns, np.uint64(salt(settings.seed, 0))).tolist()
    found = zip(times.tolist(), words, values.tolist(), weights.tolist(), sources.tolist(), strict=True)
    return {((t, number(word, settings.bits), v, w), SOURCES[s]) for t, word, v, w, s in found}


def rows_in(sample: Sample) -> list[Row]:
    """The rows that a sample has kept, in its order."""
    rows = sample.rows
    columns = zip(*(column.tolist() for column in rows.columns), strict=True)
    return [((t, u, v, w), sample.names[s]) for t, u, v, w, s in columns]


def cuts_in(cuts: Iterable[int]) -> list[int | None]:
    return [None if cut == NO_CUT else cut for cut in cuts]


def probabilities_in(sample: Sample, names: Sequence[str] | None) -> dict[Event, Fraction]:
    """1/(design weight) of every event that a sample gives for some sources."""
    found = sample.of(names).sample
    columns = (found.times, found.hashes, found.values, found.weights, found.design_weights)
    return {
        (t, u, v, w): 1 / Fraction(design)
        for t, u, v, w, design in zip(*(column.tolist() for column in columns), strict=True)
    }


def _columns(raw: Sequence[Raw]) -> list[tuple[int, ...]]:
    return list(zip(*raw, strict=True)) or [(), (), (), (), ()]


@st.composite
def raw_rows(draw: st.DrawFn, most: int = 70) -> list[Raw]:
    """Rows over few ids, times, values and weights: repeats, ties and events of several sources are common."""
    row = st.tuples(
        st.integers(0, 30), st.integers(-9, 9), st.integers(0, 1), st.sampled_from(WEIGHTS), st.integers(0, 2)
    )
    found = draw(st.lists(row, max_size=most))
    twice = draw(st.lists(st.tuples(st.sampled_from(found), st.integers(0, 2)), max_size=10)) if found else []
    return found + [(*event[:4], source) for event, source in twice]


SETTINGS = st.builds(
    Settings,
    capacity=st.integers(1, 9),
    per_source=st.sampled_from((0, 0, 1, 3)),
    fine=st.sampled_from((0, 0, 2)),
    bits=st.sampled_from((8, 48)),
    seed=st.integers(0, 50),
)
