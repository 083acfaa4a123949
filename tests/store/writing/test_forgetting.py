"""Forgetting, compacting, retention and budget: what goes is gone, exactly and from the file's bytes, and the rest
answers as if it had never been there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sketches import Question
from sketches.errors import QuestionError
from store import InputFile, Reject, Store, StoreError, Stream, commit, compact, forget
from store.serving.selection import Selection, StreamSketches, refresh
from tests.support.stores import BY_EPOCH, EPOCH, STREAM, content, parts, run_of, stored, stream_parts
from tests.support.streams import START, STREAMS, joined
from tests.support.streams import Stream as Rows

KEYS = ["plain", "a very secret address"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "wane.duckdb"


def rows(number: int = 900, seed: int = 1) -> Rows:
    return STREAMS["uniform"](number, seed).distinct()


def counted(path: Path, **asked: Any) -> float:
    return Store(path).ask(STREAM, Question("count", counting="events"), **asked).estimate.value


def test_a_range_of_times_goes_exactly(path: Path) -> None:
    """The rest is what a store would hold that had never seen these events."""
    all_of_it = rows()
    begin, end = START + 700, START + 2000
    stored(path, {"east": all_of_it})
    found = forget(path, STREAM, begin=begin, end=end)
    inside = (all_of_it.t >= begin) & (all_of_it.t < end)
    assert found.rows == int(inside.sum()) > 100
    assert counted(path) == len(all_of_it) - found.rows
    anew = path.with_name("anew.duckdb")
    stored(anew, {"east": all_of_it.take(~inside)})
    assert stream_parts(path)[1] == stream_parts(anew)[1]
    assert "gone" in found.lines()[0]


def test_a_source_goes_and_an_event_that_another_reported_stays(path: Path) -> None:
    """Its name, its rows and its totals are gone; events that two sources reported stay with the other."""
    east, west = rows(400, 1), rows(400, 2)
    both = joined([west, east.take(np.arange(100))])
    stored(path, {"east": east, "west": both})
    assert forget(path, STREAM, sources=["east"]).rows == len(east)
    assert Store(path).catalogue().streams[STREAM].sources == ["west"]
    assert counted(path) == len(both)
    with pytest.raises(StoreError, match="source 'north' is not in stream"):
        forget(path, STREAM, sources=["north"])


@pytest.mark.parametrize(("begin", "end"), [(0, 1500), (1500, 4000), (-1, 4000), (700, 2000)])
def test_no_end_of_what_was_forgotten_is_told(path: Path, begin: int, end: int) -> None:
    """Neither times of epochs and sources nor values: the sketch is that of a store that never had the events, and a
    source all of whose events lay in the range is gone. The stream takes new events afterwards."""
    east, west = rows(400, 1), rows(300, 2)
    short = west.take(west.t < START + 1500)
    stored(path, {"east": east, "west": short})
    forget(path, STREAM, begin=START + begin, end=START + end)
    left = {
        name: one.take((one.t < START + begin) | (one.t >= START + end))
        for name, one in (("east", east), ("west", short))
    }
    left = {name: one for name, one in left.items() if len(one)}
    anew = path.with_name("anew.duckdb")
    if left:
        stored(anew, left)
        assert stream_parts(path) == stream_parts(anew)
    totals = Store(path).catalogue().streams[STREAM]
    assert sorted(totals.by_source) == sorted(left)
    for found in (*totals.by_source.values(), *totals.epochs.values()):
        assert not begin <= found.oldest - START < end
        assert not begin <= found.newest - START < end
        assert found.latest is not None
        assert not begin <= found.latest - START < end
    stored(path, {"east": rows(50, 3)})
    assert counted(path) == sum(map(len, left.values())) + 50


def test_nothing_that_was_forgotten_is_left_in_the_bytes_of_the_file(path: Path) -> None:
    """Neither rows and labels of keys nor examples of rejected rows."""
    one = rows(200)
    secret = Rows.of("keys", one.ids, one.t, [KEYS[at % 2] for at in range(len(one))], one.w)
    reject = Reject("no time", 1, [{"id": "a rejected secret"}])
    commit(path, run_of(parts({"hidden source": secret}), rejects=[reject]))
    stored(path, {"west": rows(50, 3)}, stream="other")
    words = [b"a very secret address", b"a rejected secret", b"hidden source"]
    assert words[1] in path.read_bytes(), "else the test shows nothing"
    forget(path, STREAM)
    assert not [word for word in words if word in path.read_bytes()]
    assert list(Store(path).catalogue().streams) == ["other"]


def test_what_cannot_be_subtracted_is_dropped_and_said(path: Path) -> None:
    """A sketch of an epoch that the range cuts goes whole, and is a gap; one that lies inside it just goes."""
    stored(path, {"east": rows()}, families=BY_EPOCH)
    first = START - START % EPOCH
    found = forget(path, STREAM, begin=first + 2 * EPOCH + 100, end=first + 4 * EPOCH)
    assert found.dropped == {"by-epoch": 1}
    assert "--backfill" in "\n".join(found.lines())
    assert not Store(path).ask(STREAM, Question("count")).provenance.complete


def test_a_forgotten_stream_can_be_read_anew(path: Path) -> None:
    """Its ledger goes with it."""
    run = replace(run_of(parts({"east": rows()})), files=[InputFile("a.parquet", 1, "0", 900, 0)])
    commit(path, run)
    found = forget(path, STREAM)
    assert found.whole
    assert found.as_dict()["whole"] is True
    commit(path, run)
    assert counted(path) == len(rows())


@pytest.mark.parametrize("family", ["sample", "by-epoch"])
def test_a_stream_that_is_forgotten_while_it_is_read_is_said_to_be_gone(path: Path, family: str) -> None:
    """Another process forgets it after the question was planned, and before its sketches are read."""
    stored(path, {"east": rows(50)}, families=(family,))
    planned = Store(path).catalogue()
    forget(path, STREAM)
    with pytest.raises(QuestionError, match="stream 'calls' is not in the store; it holds none"):
        refresh(Selection(STREAM, ("east",), family), path, planned, 1.0, StreamSketches())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"stream": "cals"}, "stream 'cals' is not in the store"),
        ({"begin": 9, "end": 9}, "the range from 9 to 9 is empty"),
    ],
)
def test_what_cannot_be_forgotten_is_said(path: Path, arguments: dict[str, Any], words: str) -> None:
    """Nothing is changed."""
    stored(path, {"east": rows(50)})
    before = content(path)
    with pytest.raises(StoreError, match=words):
        forget(path, **{"stream": STREAM, **arguments})
    assert content(path) == before


def test_a_compacted_store_holds_the_same(path: Path) -> None:
    """All rows of all tables but the names of the commit; a dry run changes nothing."""
    for seed in range(4):
        stored(path, {"east": rows(600, seed)}, families=("sample", "by-epoch"))
    before, bytes_before = content(path), path.read_bytes()
    said = compact(path, dry_run=True)
    assert path.read_bytes() == bytes_before
    assert "would take" in said.sentence()
    found = compact(path)
    after = content(path)
    assert found.after == path.stat().st_size <= found.before
    ((_, generation, store, name),) = before.pop("wane")
    ((_, now, same_store, other),) = after.pop("wane")
    assert (now, same_store) == (generation + 1, store)
    assert other != name
    assert after == before


def fading(**settings: Any) -> Stream:
    return Stream(STREAM, EPOCH, settings=settings)


def test_retention_drops_whole_epochs_by_the_newest_event(path: Path) -> None:
    """What is older is gone from every family, from totals and from answers; late rows that are too old go too."""
    all_of_it = rows(1200)
    early, late = all_of_it.take(all_of_it.t < START + 1800), all_of_it.take(all_of_it.t >= START + 1800)
    for part in (late, early):
        found = parts({"east": part}, families=("sample", "by-epoch"))
        commit(path, replace(run_of(found), stream=fading(retention="20m")))
    since = (int(all_of_it.t.max()) - 1200) // EPOCH * EPOCH
    left = int((all_of_it.t >= since).sum())
    assert 0 < left < len(all_of_it)
    stream = Store(path).catalogue().streams[STREAM]
    assert min(span.start for span in stream.epochs) == since
    assert sum(totals.events for totals in stream.epochs.values()) == left
    assert sum(totals.events for totals in stream.by_source.values()) == left
    for family in ("sample", "by-epoch"):
        assert counted(path, family=family) == left


def test_a_budget_halves_the_capacity_until_the_sample_fits_and_it_never_grows_back(path: Path) -> None:
    """And no accuracy is promised that it was cut below."""
    budget = 12_000
    sizes = []
    for seed in range(3):
        one = rows(3_000, seed)
        later = Rows.of("later", one.ids + 10_000 * seed, one.t + 3_600 * seed, one.v, one.w)
        found = parts({"east": later})
        commit(path, replace(run_of(found), stream=fading(budget=budget)))
        head, segments = stream_parts(path)
        sizes.append(len(head) + sum(len(payload) for *_, payload in segments))
    assert all(size <= budget for size in sizes)
    assert min(sizes) > budget / 4, "else it was cut more than it need be"
    estimate = Store(path).ask(STREAM, Question("count", counting="events")).estimate
    assert estimate.lower <= 3 * len(rows(3_000, 0)) * 1.02
    assert "planned for a relative error" not in estimate.guarantee
