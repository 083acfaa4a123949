"""Samples of events with fields: exact where all is kept, covered where not, the same however they were merged."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sketches import Events, Question, Sample
from sketches.errors import IncompatibleError, QuestionError, UnanswerableError
from sketches.fields import FieldColumn
from sketches.predicate import Predicate, columns_with
from sketches.sampling.layout import field_bytes
from tests.support.coverage import Tally
from tests.support.wide import NAMES, SPAN, Wide, random_question, requests


def sampled(wide: Wide, **settings: Any) -> Sample:
    return Sample.partial(wide.events(), wide.sources.astype(np.int32), NAMES, **settings)


def predicate(wide: Wide, text: str) -> Predicate:
    return Predicate.parse(text, columns_with(wide.kinds))


def holds(truth: float, lower: float, upper: float) -> bool:
    slack = 1e-9 * max(abs(truth), 1e-12)
    return bool(lower - slack <= truth <= upper + slack)


def test_where_everything_is_kept_every_answer_is_exact() -> None:
    """300 random questions of every kind, with up to four conditions, as of now and of the past."""
    wide = requests(1, 2_000)
    sample, rng = sampled(wide), np.random.default_rng(11)
    asked = 0
    for _ in range(300):
        question = random_question(wide, rng)
        truth, found = wide.exact(question), sample.answer(question)
        if np.isnan(truth):
            assert np.isnan(found.value)
            continue
        asked += 1
        assert found.value == pytest.approx(truth, rel=1e-9, abs=1e-12), question
        assert holds(truth, found.lower, found.upper)
    assert asked > 200


@pytest.mark.slow
def test_intervals_of_thinned_samples_hold_as_often_as_they_say() -> None:
    """Fresh data and questions, 750 trials at 95%: all aggregates, of any column, restricted by any others."""
    tally, few = Tally(), 0
    for seed in range(100, 115):
        wide, rng = requests(seed), np.random.default_rng(seed)
        sample = sampled(wide, epsilon=0.2, detail=1, seed=seed)
        assert sample.kept < 12_000
        for _ in range(50):
            question = random_question(wide, rng)
            truth = wide.exact(question)
            if np.isnan(truth):
                continue
            found = sample.answer(question)
            few += found.used < 30
            tally.trials += 1
            tally.above += truth > found.upper + 1e-9 * abs(truth)
            tally.below += truth < found.lower - 1e-9 * abs(truth)
    assert tally.trials > 600
    assert few > 25  # rare predicates were among them
    assert not tally.too_many(0.05)


@pytest.mark.slow
def test_the_intervals_of_all_groups_hold_together() -> None:
    """80 questions split by a field: at 95% few of them may have any group outside its interval, or a large one
    unseen."""
    tally = Tally()
    for seed in range(200, 210):
        wide, rng = requests(seed), np.random.default_rng(seed)
        sample = sampled(wide, epsilon=0.2, detail=1, seed=seed)
        for _ in range(8):
            name = str(rng.choice(["path", "status", "cached", "agent"]))
            question = random_question(wide, rng, grouped=True)
            found = Sample.by_field(sample.askable_sample, name).answer(question)
            outside = False
            counted = replace(question, aggregate="count", of=None, per=None, tau=None, phi=None)
            counts = {group: wide.exact(counted, inside) for group, inside in wide.groups(name).items()}
            for group, inside in wide.groups(name).items():
                if group not in found.names:
                    outside |= counts[group] > found.unseen_share * sum(counts.values()) * (1 + 1e-9)
                    continue
                truth, at = wide.exact(question, inside), found.names.index(group)
                outside |= not np.isnan(truth) and not holds(truth, found.lower[at], found.upper[at])
            tally.trials += 1
            tally.above += outside
    assert tally.trials == 80
    assert not tally.too_many(0.05)


@pytest.mark.parametrize("aggregate", ["variance", "stddev"])
@pytest.mark.parametrize("of", ["size_kb", "weight", "value"])
def test_variances_of_groups_are_exact_or_hold_together(aggregate: str, of: str) -> None:
    """Of a field, the weight and the value: exact where all is kept; thinned, all groups of 60 splits hold together."""
    wide = requests(3, 2_000)
    question = Question(aggregate, "exp:half_life=50000s", as_of=SPAN, of=of)
    for by in ("path", "cached"):
        split = Sample.by_field(sampled(wide).askable_sample, by).answer(question)
        for group, value, lower, upper in zip(split.names, split.value, split.lower, split.upper, strict=True):
            truth = wide.exact_by(question, by)[group]
            assert (value, lower, upper) == (pytest.approx(truth), pytest.approx(truth), pytest.approx(truth))
    missed = 0
    for seed in range(30):
        wide = requests(seed % 3 + 400, 6_000)
        askable = sampled(wide, epsilon=0.3, detail=1, seed=seed).askable_sample
        for by in ("path", "status"):
            split, truths = Sample.by_field(askable, by).answer(question), wide.exact_by(question, by)
            missed += not all(
                holds(truths[group], lower, upper)
                for group, lower, upper in zip(split.names, split.lower, split.upper, strict=True)
            )
    assert missed <= 7  # of 60 at 95%


def test_groups_are_exact_where_everything_is_kept() -> None:
    """By text, numbers, true and false, with those of which the field is missing as a group of their own."""
    wide = requests(2, 2_000)
    sample = sampled(wide)
    for name in ("path", "status", "cached", "agent"):
        for question in (
            Question("count", "exp:half_life=20000s", as_of=SPAN),
            Question("mean", "none", as_of=SPAN // 2, of="size_kb"),
            Question("median", "window:100000s", as_of=SPAN, of="value", where=predicate(wide, "status = 200")),
        ):
            found = Sample.by_field(sample.askable_sample, name).answer(question)
            groups = wide.groups(name)
            assert set(found.names) == set(groups)
            assert found.exact
            assert found.unseen_share == 0.0
            for at, group in enumerate(found.names):
                truth = wide.exact(question, groups[group])
                assert found.value[at] == pytest.approx(truth, rel=1e-9, nan_ok=True)


def test_a_group_that_was_never_sampled_is_smaller_than_is_said() -> None:
    """40 rare groups of many sizes: those that are unseen are all below the limit, in at least 95 of 100 samples."""
    rng = np.random.default_rng(5)
    sizes = np.unique(np.geomspace(1, 400, 40).astype(int))
    texts = np.concatenate([np.full(20_000, "common"), *(np.full(size, f"rare {size}") for size in sizes)])
    texts = texts[rng.permutation(len(texts))].astype(object)
    times, wrong, unseen = np.arange(len(texts)), 0, 0
    for seed in range(100):
        events = Events.of(times, times, fields={"text": texts})
        sample = Sample.build(events, epsilon=0.3, detail=1, seed=seed)
        found = Sample.by_field(sample.askable_sample, "text").answer(Question("count"))
        missing = [size for size in sizes.tolist() if f"rare {size}" not in found.names]
        unseen += len(missing)
        wrong += max(missing, default=0) > found.unseen_share * len(texts)
        assert 0.0 < found.unseen_share < 0.3
    assert unseen > 100
    assert wrong <= 5


def test_samples_with_fields_merge_in_any_order_to_the_same_bytes() -> None:
    wide = requests(3, 6_000)
    rng = np.random.default_rng(3)
    parts = np.array_split(rng.permutation(len(wide.ids)), 4)
    events = wide.events()
    some = [
        Sample.of_sources(
            Events.of(
                wide.ids[part], wide.times[part], wide.values[part], wide.weights[part],
                {name: column[part] for name, column in wide.fields.items()},
            ),
            wide.sources[part].astype(np.int32), NAMES, sampled(wide, epsilon=0.3, detail=1).parameters,
        )
        for part in parts
    ]  # fmt: skip
    whole = Sample.of_sources(events, wide.sources.astype(np.int32), NAMES, some[0].parameters)
    assert whole.kept < len(wide.first)
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        merged = some[order[0]]
        for at in order[1:]:
            merged = Sample.union([merged, some[at]])
        assert merged.to_bytes() == whole.to_bytes()
    assert Sample.union([whole, some[2]]).to_bytes() == whole.to_bytes()
    again = Sample.from_bytes(whole.to_bytes())
    assert again.to_bytes() == whole.to_bytes()


def test_copies_that_differ_in_a_field_are_one_event_the_same_in_any_order() -> None:
    """The least is taken, a known one before a missing one, as a whole: no event gets the fields of two copies."""
    fields = {"a": np.array(["x", None, "b", "b"], object), "n": np.array([1.0, 7.0, 9.0, 2.0])}
    rows = [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]]
    for order in rows:
        events = Events.of(
            np.zeros(4, np.int64), np.zeros(4, np.int64), np.ones(4), fields={k: v[order] for k, v in fields.items()}
        )
        parts = [Sample.build(events.rows(at, at + 1)) for at in range(4)]
        for sample in (Sample.build(events), Sample.union(parts)):
            assert sample.kept == 1
            assert sample.rows.fields["a"].texts[sample.rows.fields["a"].values[0]] == "b"
            assert sample.rows.fields["n"].values.tolist() == [2.0]


def test_the_copies_of_two_sources_have_one_fields() -> None:
    events = Events.of([7, 7], [0, 0], [1, 1], fields={"a": np.array(["z", "m"], object)})
    sample = Sample.of_sources(events, np.array([0, 1], np.int32), ["one", "two"], Sample.build(events).parameters)
    for names in (["one"], ["two"], None):
        found = sample.of(names).answer(Question("frequency", of="a", value="m"))
        assert found.value == 1.0


def test_a_field_that_was_added_later_is_unknown_of_older_events() -> None:
    """Answers are about the events that have it, and the sample knows of which times others are."""
    old = Sample.build(Events.of(np.arange(100), np.arange(100), np.ones(100)))
    new = Sample.build(Events.of(np.arange(100, 150), np.arange(100, 150), np.ones(50), fields={"n": np.arange(50)}))
    for sample in (Sample.union([old, new]), Sample.from_bytes(Sample.union([new, old]).to_bytes())):
        assert sample.answer(Question("mean", of="n")).value == 24.5
        assert sample.answer(Question("count", where=Predicate.parse("n is null", columns_with(
            {"n": sample.known["n"].kind})))).value == 100  # fmt: skip
        known = sample.askable_sample.unknown_fields({"n"}, SPAN)["n"]
        assert (known.since, known.until) == (0, 99)
        assert (sample.known["n"].least, sample.known["n"].greatest) == (0, 49)
    assert new.askable_sample.unknown_fields({"n"}, SPAN) == {}


def test_a_field_holds_one_kind() -> None:
    """Whole numbers and floats go together; text and numbers do not."""
    one = Sample.build(Events.of([1], [1], fields={"n": np.array([3])}))
    two = Sample.build(Events.of([2], [2], fields={"n": np.array([0.5])}))
    assert Sample.union([one, two]).answer(Question("sum", of="n")).value == 3.5
    text = Sample.build(Events.of([3], [3], fields={"n": np.array(["3"], object)}))
    with pytest.raises(IncompatibleError, match="field 'n' holds integer in one part and text in another"):
        Sample.union([one, text]).to_bytes()


def test_what_is_not_kept_is_refused_by_name() -> None:
    sample = sampled(requests(2, 2_000))
    with pytest.raises(UnanswerableError, match="'colour' is no field of these events; kept are agent, cached"):
        sample.answer(Question("mean", of="colour"))
    with pytest.raises(UnanswerableError, match="sums of path need numbers, but it is text"):
        sample.answer(Question("sum", of="path", tau="median"))
    with pytest.raises(QuestionError, match="of='path' goes with"):
        Question("count", of="path")
    with pytest.raises(QuestionError, match="means something else in a question"):
        Question("mean", of="median")


def test_forgetting_forgets_what_fields_were() -> None:
    """The greatest number of a field is gone with the event that had it."""
    numbers = np.append(np.arange(99), 12_345)
    events = Events.of(np.arange(100), np.arange(100), np.ones(100), fields={"n": numbers})
    left = Sample.build(events).without(99, 100, for_good=True)
    assert left.known["n"].greatest == 98
    assert left.to_bytes() == Sample.build(events.rows(0, 99)).to_bytes()


def test_a_field_that_nobody_asks_for_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    data, read = sampled(requests(3, 6_000)).to_bytes(), []
    before = field_bytes.read_column
    monkeypatch.setattr(field_bytes, "read_column", lambda *given: read.append(given[1]) or before(*given))
    sample = Sample.from_bytes(data)
    sample.answer(Question("mean", of="value"))
    assert read == []
    sample.answer(Question("median", of="size_kb"))
    assert set(read) == {FieldColumn.of(np.array([0.5])).kind}


def test_a_sample_does_not_hold_the_batch_that_it_was_taken_from() -> None:
    """What is kept of a field is a copy: a worker has many samples, and each batch takes 100 MB."""
    numbers = np.arange(50_000)
    batch = Events.of(numbers, numbers, fields={"n": numbers})
    held = weakref.ref(batch.fields["n"].values)
    sample = Sample.build(batch, epsilon=0.3, detail=1)
    whole = Sample.union([sample, Sample.build(Events.of([1], [1], fields={"n": np.array([7])}))])
    del batch
    gc.collect()
    assert held() is None
    assert len(whole.rows.fields["n"]) == whole.kept
