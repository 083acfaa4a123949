"""docs/decays.md is true: every decay is in its table, with its class and its weights, and the examples run."""

from __future__ import annotations

import doctest
import re
from typing import Final

import pytest

from sketches.decay import EXAMPLES, DecayClass, parse_decay
from tests.support.paths import ROOT

FLAGS: Final = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PAGE: Final = ROOT / "docs" / "decays.md"
ROWS: Final = re.findall(r"^\| `([^`]+)` \|.*\| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
SHOWN: Final = [row for row in ROWS if row[0] != "last:10000"]


def test_every_decay_is_in_the_table() -> None:
    """Each with the example that users are shown, in the same order."""
    rows = [spec for spec, _, _ in ROWS]
    assert sorted(rows) == sorted(EXAMPLES.values())
    assert {kind for _, kind, _ in ROWS} - {"by its points", "by its values"} == set(DecayClass)


@pytest.mark.parametrize(("spec", "kind", "weights"), SHOWN, ids=[row[0] for row in SHOWN])
def test_a_row_of_the_table(spec: str, kind: str, weights: str) -> None:
    """The class is that of the decay, and the weights are those at 0, 10 minutes and an hour, to four digits."""
    decay = parse_decay(spec)
    assert kind in (decay.decay_class, "by its points", "by its values")
    stated = [float(each) for each in weights.split(", ")]
    assert decay([0, 600, 3600]).tolist() == pytest.approx(stated, rel=5e-4)


def test_the_examples_run() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, optionflags=FLAGS)
    assert failed == 0
    assert tried >= 6


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("chordal:1h,window=1d", "chordal:1h"),
        ("power:alpha=0.5,unit=1s", "expr:max(age,1)^-0.5"),
        ("expr:max(age,0.01)^-0.5", "expr:10*max(age*100,1)^-0.5"),
    ],
)
def test_what_the_page_says_is_the_same(text: str, same: str) -> None:
    ages = [0.0, 0.5, 1, 2, 60, 3599, 3600, 3601, 1e6]
    assert parse_decay(text)(ages).tolist() == pytest.approx(parse_decay(same)(ages).tolist(), rel=1e-12)
