"""The work of a run is found, or refused, before any row is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from ingest.driver.configuration.settings import Settings, SettingsError, read_settings
from ingest.driver.configuration.stream_kinds import StreamKinds, checked_kinds
from ingest.driver.run_options import RunOptions
from ingest.driver.stream_work import find_work
from sketches import Events, Histogram
from sketches.event_rules import ROLES
from sketches.events import Kind
from sketches.family import Scope
from sketches.fields import FieldKind
from sketches.registry import register
from sketches.sampling.epoch_sample import EpochSample
from store import EpochSketches, Run, Stream, commit
from tests.support.runs import configure
from tests.support.stores import EPOCH, STREAM, events, part, run_of
from tests.support.streams import STREAMS

ROWS = STREAMS["uniform"](50, 1)
FIRST = int(ROWS.t.min() - ROWS.t.min() % EPOCH)
INSIDE = ROWS.take(ROWS.t < FIRST + EPOCH)


class Undivided(Histogram):
    """One sketch for all epochs of a source."""

    family: ClassVar[str] = "undivided"
    scope: ClassVar[Scope] = Scope.SOURCE


register(Undivided)

BOTH = 'families = ["sample", "undivided"]\n'


def error_of(settings: Settings, backfill: tuple[int, int] | None = None) -> str | None:
    return find_work(settings.streams[STREAM], settings.store, RunOptions(backfill=backfill)).outcome.error


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A stream that keeps a sketch for all epochs of a source, with events in the store."""
    found = configure(tmp_path, BOTH)
    one = part(INSIDE, "north", FIRST)
    sketches = [*one.sketches, Undivided.build(events(INSIDE))]
    commit(found.store, run_of([EpochSketches("north", FIRST, EPOCH, 1, 1.0, FIRST, FIRST, sketches)]))
    return found


def test_a_backfill_is_refused_before_spark_starts(settings: Settings) -> None:
    """What the commit would refuse after all the work, and for all streams, is the error of this stream alone."""
    error = error_of(settings, (FIRST, FIRST + EPOCH))
    assert error is not None
    assert error.startswith("stream 'calls': it cannot be backfilled: family 'undivided'")
    assert error_of(settings) is None


def test_such_a_family_cannot_come_or_go(settings: Settings, tmp_path: Path) -> None:
    """Left out, its sketch would lack the new events; added, the stored ones."""
    error = error_of(configure(tmp_path))
    assert error is not None
    assert "family 'undivided' cannot be left out" in error
    other = configure(tmp_path, BOTH, name="other")
    commit(other.store, run_of([part(INSIDE, "north", FIRST)]))
    error = error_of(other)
    assert error is not None
    assert "family 'undivided' cannot be added" in error


def test_a_stream_without_events_takes_any_family(tmp_path: Path) -> None:
    """There is nothing yet that a sketch could lack; a backfill finds nothing to replace."""
    settings = configure(tmp_path, BOTH)
    assert error_of(settings) is None
    commit(settings.store, run_of([]))
    assert error_of(settings) is None
    assert error_of(settings, (FIRST, FIRST + EPOCH)) is None


def described(settings: Settings, **without: None) -> Run:
    """A run of the stream as its settings say, but for what an older wane did not know."""
    known = {name: value for name, value in settings.streams[STREAM].described().items() if name not in without}
    return replace(run_of([part(INSIDE, "north", FIRST)]), stream=Stream(STREAM, EPOCH, settings=known))


@pytest.mark.parametrize(("name", "other"), [("weight_step", "0.01"), ("counting", '"weight"')])
def test_what_sketches_hold_cannot_change(tmp_path: Path, name: str, other: str) -> None:
    """Another unit of weights, or weight counted instead of events, needs another stream."""
    settings = configure(tmp_path)
    commit(settings.store, described(settings))
    assert error_of(settings) is None
    error = error_of(configure(tmp_path, f"{name} = {other}\n"))
    assert error is not None
    assert error.startswith(f"{name} of stream 'calls' is {other}".replace('"', "'"))


def test_the_accuracy_of_a_sample_may_change(tmp_path: Path) -> None:
    """Its sketches merge whatever they were built for; those of other families do not."""
    settings = configure(tmp_path)
    commit(settings.store, described(settings))
    finer = configure(tmp_path, "delta = 0.01\ndetail = 3\nper_source = 5\n[streams.calls.sample]\nepsilon = 0.1\n")
    assert error_of(finer) is None
    other = configure(tmp_path, 'families = ["sample", "qdigest"]\n', name="other")
    commit(other.store, described(other))
    file = other.path
    file.write_text(file.read_text().replace("epsilon = 0.2", "epsilon = 0.3"))
    error = error_of(read_settings(file))
    assert error is not None
    assert error.startswith("epsilon of stream 'calls' is 0.3, but its stored sketches were built with 0.2")
    error = error_of(configure(tmp_path, "[streams.calls.sample]\nbits = 40\n"))
    assert error is None, "nothing was said of bits before"


def test_how_many_bits_a_sample_stores_cannot_change(tmp_path: Path) -> None:
    """A family's own settings stay, but for those with which its sketches merge."""
    settings = configure(tmp_path, "[streams.calls.sample]\nbits = 44\nepsilon = 0.3\n")
    commit(settings.store, described(settings))
    assert error_of(configure(tmp_path, "[streams.calls.sample]\nbits = 44\nepsilon = 0.1\n")) is None
    error = error_of(configure(tmp_path, "[streams.calls.sample]\nbits = 40\nepsilon = 0.1\n"))
    assert error is not None
    assert "sample of stream 'calls' is {'bits': 40}, but its stored sketches were built with {'bits': 44}" in error


def test_epochs_of_the_earlier_form_are_known_to_the_workers(tmp_path: Path) -> None:
    """Rows of these epochs are built as what is stored of them was, whatever the settings say by now."""
    settings = configure(tmp_path)
    starts = [FIRST, FIRST + EPOCH]
    thinned = [
        EpochSketches(
            "north",
            start,
            EPOCH,
            1,
            1.0,
            start,
            start,
            [EpochSample.build(Events.of(range(99), [start] * 99), epsilon=0.9)],
        )
        for start in starts
    ]
    old = replace(run_of(thinned), stream=Stream(STREAM, EPOCH, settings={"epsilon": 0.9, "delta": 0.05}))
    commit(settings.store, old)
    stream = configure(tmp_path, "delta = 0.3\nseed = 4\n").streams[STREAM]
    work = find_work(stream, settings.store, RunOptions())
    assert work.earlier["sample"].starts == set(starts)
    keywords = {"epsilon": 0.9, "delta": 0.05, "seed": 4, "unit": stream.unit}
    assert work.earlier["sample"].keywords == keywords
    assert work.described(StreamKinds())["earlier"] == {"sample": {"epsilon": 0.9, "delta": 0.05}}
    replaced = find_work(stream, settings.store, RunOptions(backfill=(FIRST, FIRST + EPOCH)))
    assert replaced.earlier["sample"].starts == {FIRST + EPOCH}, "what a backfill reads anew goes to the sample"
    commit(settings.store, replace(old, stream=Stream(STREAM, EPOCH, settings=work.described(StreamKinds()))))
    again = find_work(stream, settings.store, RunOptions())
    assert again.earlier["sample"].keywords == keywords, "remembered"
    assert "earlier" not in find_work(
        configure(tmp_path, name="new").streams[STREAM], tmp_path / "no", RunOptions()
    ).described(StreamKinds())


def test_a_stream_of_an_older_wane_has_steps_of_1(tmp_path: Path) -> None:
    """Its settings do not say so: weights were whole numbers; what it counts is open where its sketches keep both."""
    settings = configure(tmp_path)
    commit(settings.store, described(settings, weight_step=None, counting=None))
    assert error_of(settings) is None
    assert error_of(configure(tmp_path, 'counting = "weight"\n')) is None
    error = error_of(configure(tmp_path, "weight_step = 0.5\n"))
    assert error is not None
    assert "weight_step of stream 'calls' is 0.5, but its stored sketches were built with 1" in error


def test_families_that_keep_one_of_the_two_kept_weight(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before there was a choice such a family counted weight, and it goes on only so."""
    monkeypatch.setattr(Undivided, "one_mass", True)
    error = error_of(settings)
    assert error is not None
    assert "counting of stream 'calls' is 'events', but its stored sketches were built with 'weight'" in error
    assert error_of(configure(tmp_path, 'counting = "weight"\n' + BOTH)) is None


def test_fields_come_and_go_and_keep_their_kinds(tmp_path: Path) -> None:
    """One that is removed is remembered, and counts among those that a stream may have."""
    settings = configure(tmp_path, '[streams.calls.fields]\nstatus = "v"\npath = "source"\n')
    run = described(settings)
    kinds = StreamKinds(Kind.INTEGER, {"status": FieldKind.INTEGER, "path": FieldKind.TEXT})
    kept = dict(run.stream.settings or {}) | kinds.described()
    commit(settings.store, replace(run, stream=Stream(STREAM, EPOCH, settings=kept)))
    other = configure(tmp_path, '[streams.calls.fields]\nstatus = "upper(v)"\nnew = "w"\n')
    assert error_of(other) is None
    work = find_work(other.streams[STREAM], other.store, RunOptions())
    assert work.kinds == kinds
    found = checked_kinds(
        other.streams[STREAM],
        {role: [pa.int64()] for role in ROLES} | {"field status": [pa.string()], "field new": [pa.null()]},
        work.kinds,
    )
    assert found == kinds, "what the store knows stays, and nulls say nothing"
    described_now = work.described(found)
    assert described_now["fields"] == {"new": "w", "status": "upper(v)"}
    assert described_now["field_kinds"] == {"status": "integer", "path": "text"}
    many = configure(tmp_path, "[streams.calls.fields]\n" + "".join(f'f{n} = "v"\n' for n in range(31)))
    error = error_of(many)
    assert error is not None
    assert "has 31 fields and had path, status; at most 32 are kept" in error


def test_a_field_of_an_impossible_type_is_refused(tmp_path: Path) -> None:
    """With the stream, the field, its expression, its type and what would help."""
    settings = configure(tmp_path, '[streams.calls.fields]\nrequest = "req"\n')
    types = {role: [pa.int64()] for role in ROLES} | {"field request": [pa.list_(pa.int8())]}
    with pytest.raises(SettingsError, match=r"field request of stream 'calls' is 'req', of type list<.*with a dot"):
        checked_kinds(settings.streams[STREAM], types, StreamKinds())
