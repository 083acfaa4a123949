"""An answer says where it comes from and what is missing, also one that joins two sources over time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sketches import Question
from sketches.errors import QuestionError
from sketches.units import SECOND, TimeUnit
from store import Store
from store.serving.catalogue import Gap
from tests.support.oracle import Oracle
from tests.support.stores import EPOCH, STREAM, overlapping, replace_segment, stored, stretch
from tests.support.streams import STREAMS

ROWS = STREAMS["correlated"](900, 3)
SOURCES = overlapping(ROWS, ["east", "west"], 1)
NEWEST = int(ROWS.t.max())
LAST = NEWEST - NEWEST % EPOCH  # start of the last epoch
PRODUCT = Question("inner-product", "exp:half_life=15m")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sources that report some events alike, all of which are kept, in several segments."""
    monkeypatch.setattr("sketches.sampling.layout.segments.SEGMENT_ROWS", 250)
    stored(tmp_path / "wane.duckdb", SOURCES)
    return tmp_path / "wane.duckdb"


def test_an_inner_product_over_time_is_exact_at_every_time(path: Path) -> None:
    """Each point is the oracle's answer as of its time; all points are of one generation and one family."""
    moments = np.array([LAST - 1200, LAST, NEWEST])
    series, provenance = Store(path).series(STREAM, PRODUCT, moments, sources=["east"], other="west")
    truth = [Oracle(SOURCES["east"]).answer(PRODUCT.at(moment), Oracle(SOURCES["west"])) for moment in moments.tolist()]
    assert series.value.tolist() == pytest.approx(truth)
    assert series.lower.tolist() == series.upper.tolist() == series.value.tolist()
    assert (series.as_of.tolist(), series.family, series.confidence) == (moments.tolist(), "sample", 1.0)
    assert (provenance.sources, provenance.generation, provenance.complete) == (("east",), 1, True)
    assert (series.used > 0).all()


def test_a_damaged_stretch_of_both_sources_is_missing(path: Path) -> None:
    """The series names it and says so in its guarantee, but only where it would count."""
    oldest, newest = stretch(path, NEWEST)
    replace_segment(path, oldest, b"broken")
    asked = Store(path)
    series, provenance = asked.series(STREAM, PRODUCT, [LAST - 1, NEWEST], sources=["east"], other="west")
    assert [(gap.source, gap.start, gap.end - 1) for gap in provenance.missing] == [("", oldest, newest)]
    assert series.guarantee.startswith(f"INCOMPLETE: 1 epoch is missing (all sources at {oldest}); for the rest: ")
    assert asked.series(STREAM, PRODUCT, [oldest - 1], sources=["east"], other="west")[1].complete


def test_only_inner_products_have_a_second_source(path: Path) -> None:
    """And they need a time, a known source, and a second source."""
    asked = Store(path)
    with pytest.raises(QuestionError, match="other= goes with inner-product"):
        asked.series(STREAM, Question("sum"), [NEWEST], sources=["east"], other="west")
    with pytest.raises(QuestionError, match="at least one as-of time"):
        asked.series(STREAM, PRODUCT, [], sources=["east"], other="west")
    with pytest.raises(QuestionError, match="source 'wets' is not in the store"):
        asked.series(STREAM, PRODUCT, [NEWEST], sources=["east"], other="wets")
    with pytest.raises(QuestionError, match="needs a second sketch"):
        asked.series(STREAM, PRODUCT, [NEWEST], sources=["east"])


def test_the_family_of_a_question_is_known_before_anything_is_loaded(path: Path) -> None:
    """And it is refused by name where the store has none of it; loading takes names, too."""
    asked = Store(path)
    assert asked.family_for(STREAM, Question("median")) == "sample"
    assert asked._reads.selections == {}
    with pytest.raises(QuestionError, match="family 'smple' is not in the store"):
        asked.family_for(STREAM, Question("median"), family="smple")
    asked.load(STREAM, "sample", sources=["west", "west"])
    assert list(asked._reads.selections) == [(STREAM, ("west",), "sample")]
    with pytest.raises(QuestionError, match="source 'wets' is not in the store"):
        asked.load(STREAM, "sample", sources=["wets"])


def test_many_gaps_are_named_by_three_and_counted(path: Path) -> None:
    """Each epoch of a source once, whatever the reasons; without gaps the guarantee is as it was."""
    whole = Store(path).ask(STREAM, Question("count")).provenance
    gaps = tuple(Gap("east", start, EPOCH, "sample", why) for start in range(5) for why in ("lost", "damaged"))
    said = replace(whole, missing=gaps).qualify("exact")
    assert said == "INCOMPLETE: 5 epochs are missing (east at 0, east at 1, east at 2 and 2 more); for the rest: exact"
    assert whole.qualify("exact") == "exact"


@pytest.mark.parametrize("unit", [SECOND, TimeUnit(1, 1000)])
def test_lines_tell_times_in_the_stream_s_unit(path: Path, unit: TimeUnit) -> None:
    """As a date, with the number in the unit of the stream."""
    answer = Store(path).ask(STREAM, Question("count"))
    scaled = replace(answer, estimate=replace(answer.estimate, as_of=1_700_000_000 * unit.denominator))
    assert f"as of        2023-11-14 22:13:20 UTC ({1_700_000_000 * unit.denominator})" in list(scaled.lines(unit))
