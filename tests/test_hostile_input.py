"""Hostile input for a second or two; `python -m benchmarks.hostile` does it for minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hostile import TARGETS, tried

INPUTS = {
    "wire format": 300,
    "segments": 200,
    "packed tables": 1000,
    "monitor files": 500,
    "settings": 60,
    "decays": 2000,
    "addresses": 60,
}


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_hostile_input_is_refused_in_our_words_or_taken(target: str, tmp_path: Path) -> None:
    """No other error than wane's, and nowhere near 100 MB; some are so nearly right that they are taken."""
    found = tried(target, range(INPUTS[target]), tmp_path)
    assert found.faults == []
    assert 0 < found.taken <= found.inputs == INPUTS[target]


def test_what_minutes_of_it_found_stays_mended(tmp_path: Path) -> None:
    """Counters of an old format near the largest number that there is: sums of them overflowed."""
    assert tried("wire format", range(8648, 8649), tmp_path).faults == []
