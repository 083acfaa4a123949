"""Totals by the values of a field: those of brute force, however rows come, and none where they could mislead."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sketches import Events, Question, Sample
from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError
from sketches.event_rules import Repeats
from sketches.fields import FieldColumn, FieldKind
from sketches.predicate import Predicate, columns_with
from sketches.sampling.totals.field_totals import MOST_VALUES, FieldTotals, few_values
from sketches.sampling.totals.slice_totals import NEVER
from sketches.units import SECOND

HOUR = 3_600
SIZE = 4_000


class Rows:
    """Some rows with fields of every kind."""

    def __init__(self, seed: int, first: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.ids = np.arange(first, first + SIZE)
        self.times = rng.integers(0, 30 * HOUR, SIZE)
        self.values, self.weights = rng.integers(-20, 90, SIZE), rng.integers(0, 4, SIZE)
        self.sources = rng.integers(0, 2, SIZE).astype(np.int32)
        lot = rng.integers(0, 5, SIZE)
        self.fields: dict[str, Any] = {
            "region": np.array(["eu", "us", "ap", "é", None], object)[lot],
            "status": 100 * lot - 200,
            "ratio": np.where(lot == 4, np.nan, lot / 8),
            "cached": lot > 2,
            "user": rng.integers(0, 1_000, SIZE),
        }

    def sample(self, which: Any = slice(None), **changed: Any) -> Sample:
        fields = {name: column[which] for name, column in {**self.fields, **changed}.items() if column is not None}
        columns = (column[which] for column in (self.ids, self.times, self.values, self.weights))
        events = Events.of(*columns, fields=fields)
        return Sample.partial(events, self.sources[which], ["a", "b"], epsilon=0.3, detail=1, seed=3)

    def brute(self, name: str) -> dict[tuple[Any, int], list[float]]:
        """Rows, weight and value of each value of a field and hour."""
        found: dict[tuple[Any, int], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        held = FieldColumn.of(self.fields[name]).to_list()
        for key, time, value, weight in zip(held, self.times, self.values, self.weights, strict=True):
            entry = found[key, int(time) // HOUR]
            entry[0] += 1
            entry[1] += weight
            entry[2] += value
        return dict(found)


def totals_of(sample: Sample, name: str) -> FieldTotals:
    assert sample.totals is not None
    return sample.totals.by_field[name]


def entries(one: FieldTotals) -> dict[tuple[Any, int], list[float]]:
    names, slices = one.values.to_list(), one.slices
    keys = zip(slices.groups.tolist(), slices.starts.tolist(), strict=True)
    return {(names[group], start): row for (group, start), row in zip(keys, slices.sums.tolist(), strict=True)}


@pytest.mark.parametrize("name", ["region", "status", "ratio", "cached"])
def test_they_are_those_of_brute_force(name: str) -> None:
    """Of one batch, of parts merged in any order, and read back."""
    rows = Rows(1)
    halves = [rows.sample(rows.ids % 3 == at) for at in (2, 0, 1)]
    for sample in (rows.sample(), Sample.union(halves), Sample.from_bytes(rows.sample().to_bytes())):
        assert entries(totals_of(sample, name)) == rows.brute(name)


def test_a_field_of_many_values_has_none_for_good() -> None:
    """Seventeen values in one batch or in two; a missing one is no value."""
    rows = Rows(2)
    assert totals_of(rows.sample(), "user").given_up
    few = np.where(rows.ids % 19, rows.ids % MOST_VALUES, np.nan)
    assert len(totals_of(rows.sample(status=few), "status").values) == MOST_VALUES + 1
    one, other = (
        rows.sample(rows.ids < 2_000, status=rows.ids % 9),
        rows.sample(rows.ids >= 2_000, status=rows.ids % 17),
    )
    assert not totals_of(one, "status").given_up
    both = Sample.union([one, other])
    assert totals_of(both, "status").given_up
    again = Sample.union([both, Rows(3, SIZE).sample(status=np.zeros(SIZE, int))])
    assert totals_of(again, "status").given_up


@pytest.mark.parametrize("where", ["in one batch", "in two parts"])
def test_copies_that_differ_end_them(where: str) -> None:
    """Also where two sources report the event. Other fields keep theirs."""
    rows = Rows(4)
    some, region = np.arange(100), rows.fields["region"].copy()
    region[some] = "elsewhere"
    if where == "in two parts":
        both = Sample.union([rows.sample(), rows.sample(some, region=region)])
    else:
        twice = np.append(np.arange(SIZE), some)
        events = Events.of(
            *(column[twice] for column in (rows.ids, rows.times, rows.values, rows.weights)),
            fields={"region": np.append(rows.fields["region"], region[some]), "cached": rows.fields["cached"][twice]},
        )
        sources = np.append(rows.sources, 1 - rows.sources[some]).astype(np.int32)
        both = Sample.partial(events, sources, ["a", "b"], epsilon=0.05, seed=3)
    assert totals_of(both, "region").given_up
    assert not totals_of(both, "cached").given_up
    assert totals_of(Sample.union([rows.sample(), rows.sample()]), "region").slices.sums.sum() > 0.0


def test_a_field_that_came_later_is_unknown_before() -> None:
    """Rows of a part without the field are of no group: up to the newest of them nothing is known."""
    rows = Rows(5)
    old = rows.times < 10 * HOUR
    both = Sample.union([rows.sample(old, region=None), rows.sample(~old)])
    found = totals_of(both, "region").slices
    assert found.unknown_up_to == rows.times[old].max()
    assert entries(totals_of(both, "region")) == {k: row for k, row in rows.brute("region").items() if k[1] >= 10}


def test_what_is_forgotten_leaves_no_value_behind() -> None:
    """Neither its slices nor its name; of rows after it all is known."""
    rows = Rows(6)
    region = np.where(rows.times < 10 * HOUR, "secret", rows.fields["region"].astype(str))
    for sources in (None, ["a"]):
        left = rows.sample(region=region).without(-(10**9), 12 * HOUR, sources)
        found = totals_of(left, "region")
        assert "secret" not in found.values.to_list()
        assert min(hour for _, hour in entries(found)) == 12
        assert not found.given_up
    assert totals_of(rows.sample().without(10**9, 10**10), "region").slices.unknown_up_to < 0


def test_they_fit_into_their_room() -> None:
    sample = Rows(7).sample()
    assert sample.totals is not None
    found = sample.totals.by_field["region"].fitted(40)
    assert 0 < len(found.slices) <= 40
    assert found.slices.sums[:, 0].sum() == SIZE
    assert sample.totals.by_field["region"].fitted(3).given_up


def test_corrupt_bytes_are_refused_by_name() -> None:
    """Cut short anywhere, or with one byte changed: refused, or totals all the same; never another error."""
    for name in ("region", "ratio", "cached"):
        writer = Writer()
        totals_of(Rows(8).sample(slice(0, 60)), name).write(writer)
        data = writer.to_bytes()
        for end in range(0, len(data), 3):
            with pytest.raises(CorruptError):
                FieldTotals.read(Reader(data[:end]), SECOND)
        for at in range(len(data)):
            changed = bytearray(data)
            changed[at] ^= 0x51
            with suppress(CorruptError):
                FieldTotals.read(Reader(bytes(changed)), SECOND)


def test_few_values_are_told_from_many() -> None:
    numbers = np.arange(5_000)
    assert few_values(FieldColumn.of(numbers)) is None
    late = np.where(numbers < 4_000, 0, numbers)
    assert few_values(FieldColumn.of(late)) is None
    found = few_values(FieldColumn.of(np.where(numbers % 2, "b", "a")))
    assert found is not None
    assert found[0].to_list() == ["a", "b"]


def ask(sample: Sample, where: str) -> tuple[float, float, float]:
    columns = columns_with({"region": FieldKind.TEXT, "status": FieldKind.INTEGER, "cached": FieldKind.BOOLEAN})
    question = Question("count", "none", where=Predicate.parse(where, columns), confidence=0.95)
    found = sample.of(None).answer(question)
    return found.lower, found.value, found.upper


@pytest.mark.parametrize(
    "where", ["region = 'us'", "region in ('us', 'ap')", "region is null", "status >= 100", "not cached = true"]
)
def test_a_question_about_a_field_leans_on_them(where: str) -> None:
    """All of it, without decay, is known but for an event that may have come twice."""
    rows = Rows(9)
    sample = rows.sample()
    assert sample.totals is not None
    assert sample.kept < SIZE / 2
    plain = replace(sample, totals=replace(sample.totals, by_field={}))
    (lower, _, upper), (low, _, high) = ask(sample, where), ask(plain, where)
    assert upper - lower < 0.5 * (high - low)


def test_a_second_condition_does_not() -> None:
    """Totals are of a field alone: with a range of values, of time or of another field they say nothing."""
    sample = Rows(10).sample()
    assert sample.totals is not None
    plain = replace(sample, totals=replace(sample.totals, by_field={}))
    for where in ("region = 'us' and cached = true", "region = 'us' and value > 3", "region = 'us' or time > 5"):
        assert ask(sample, where) == ask(plain, where)


def test_nothing_is_known_of_what_was_given_up() -> None:
    assert FieldTotals.unknown(SECOND).given_up
    assert (
        FieldTotals.merged([FieldTotals.unknown(SECOND, 5), FieldTotals.unknown(SECOND, 7)]).slices.unknown_up_to == 7
    )
    assert FieldTotals.unknown(SECOND, 5).lost().slices.unknown_up_to == NEVER


@pytest.mark.parametrize("repeats", [Repeats.FORGIVEN, Repeats.COUNTED])
def test_copies_that_differ_and_were_not_kept_are_within_the_limits(repeats: Repeats) -> None:
    """Three events of 8,000, of which a tenth is kept: where no copy was seen, totals count rows of the wrong value."""
    missed = leant = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        ids, times = rng.integers(0, 1 << 60, 8_000), np.sort(rng.integers(0, 80 * HOUR, 8_000))
        region = np.array(["a", "b", "c"], object)[rng.integers(0, 3, 8_000)]
        again = rng.choice(np.flatnonzero((region == "b") & (times < 60 * HOUR)), 3, replace=False)
        twice = np.append(np.arange(8_000), again)
        fields = {"region": np.append(region, ["a"] * 3)}  # the least is the event
        events = Events.of(ids[twice], times[twice], times[twice] % 7, fields=fields)
        sample = Sample.partial(events, np.zeros(8_003, np.int32), [""], epsilon=0.2, detail=1, seed=seed)
        leant += not totals_of(sample, "region").given_up
        copies = np.bincount(again, minlength=8_000) * (repeats is Repeats.COUNTED) + 1
        region[again] = "a"
        exact = {group: float(copies[region == group].sum()) for group in ("a", "b", "c")}
        askable, question = sample.of(None, repeats), Question("count", "none", confidence=0.95)
        where = Predicate.parse("region = 'b'", columns_with({"region": FieldKind.TEXT}))
        one, split = askable.answer(replace(question, where=where)), Sample.by_field(askable, "region").answer(question)
        limits = [(exact["b"], one.lower, one.upper)]
        limits += zip((exact[str(name)] for name in split.names), split.lower, split.upper, strict=True)
        missed += any(not lower - 1e-6 <= truth <= upper + 1e-6 for truth, lower, upper in limits)
    assert leant > 20
    assert missed <= 8, "of 50 at 95%"


@pytest.mark.parametrize("at_once", [True, False])
def test_copies_that_differ_at_two_sites_end_them(*, at_once: bool) -> None:
    """Neither site knows of it; nor does a later merge, which brings nothing of either."""
    rows = Rows(11)
    region = np.where(rows.ids < 2_000, "elsewhere", rows.fields["region"].astype(str))
    one, other = rows.sample().under("one"), rows.sample(region=region).under("other")
    tallies = [one.tally(), other.tally()]
    if at_once:
        centre = Sample.of_sites(None, [one, other], [[], []], tallies)
    else:
        centre = Sample.of_sites(Sample.of_sites(None, [one], [[]], tallies[:1]), [other], [[]], tallies)
    for found in (centre, Sample.of_sites(Sample.from_bytes(centre.to_bytes()), [], [], tallies)):
        assert totals_of(found, "region").given_up
        assert not totals_of(found, "cached").given_up
