"""Sites and centre over files that are lost, late, repeated and out of order: right once they arrive, never silently
wrong before."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sketches import Events
from sketches.arrays import Floats
from sketches.countmin.ecm import Ecm
from sketches.errors import CorruptError, WaneError
from sketches.monitoring.site import Reference
from store.monitoring.centre_sync import sync
from store.monitoring.messages import ALIVE, REFERENCE, REPORT, SUFFIX, Message, mark_of, read_folder, whole
from store.monitoring.rule import Rule
from store.monitoring.site_check import TO_CENTRE, TO_SITES, check_vector
from store.monitoring.standing import standings
from store.monitoring.state_files import file_name, read_state, state_folder, write_whole
from tests.support.mover import LEASE, SITES, SKETCH, Field, Mover, rule_of
from tests.support.watching import walks


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


def vectors_of(kind: str, ticks: int, seed: int) -> list[Floats]:
    return list(walks(kind, len(SITES), SKETCH.shape.rows * SKETCH.shape.width, ticks, seed))


def values_of(vectors: list[Floats]) -> Floats:
    return np.array([rule_of(1.0).watched.value(one.sum(axis=0)) for one in vectors])


@pytest.mark.parametrize("kind", ["falling", "bursts"])
def test_whatever_is_lost_the_state_is_true_or_unknown(tmp_path: Path, kind: str) -> None:
    """A side is stated of the checks that it rests on, which are no older than a lease; and once nothing is lost any
    longer, the state is right."""
    vectors = vectors_of(kind, 45, 3)
    values = values_of(vectors)
    threshold = float(np.quantile(values, 0.6))
    field = Field(rule_of(threshold), tmp_path, Mover(np.random.default_rng(5)))
    seen: Counter[str] = Counter()
    for tick, now in enumerate(vectors):
        found = field.tick(tick, now)
        seen[found.state] += 1
        if found.state != "unknown":
            assert found.as_of is not None
            assert found.as_of >= field.now - LEASE
            assert (field.claimed() < threshold) == (found.state == "below")
        else:
            assert found.reason
    for tick in range(45, 53):
        found = field.tick(tick, vectors[-1], whole=True)
    assert found.state == ("below" if values[-1] < threshold else "above"), found.reason
    assert found.as_of is not None
    assert found.as_of >= field.now - LEASE
    assert seen["unknown"] > 3
    assert seen["below"] + seen["above"] > 2


def test_without_losses_few_files_are_needed(tmp_path: Path) -> None:
    """Far from the threshold the sites send their first report and signs of life, and Health tells how many fewer."""
    vectors = vectors_of("steady", 30, 1)
    field = Field(rule_of(100.0 * values_of(vectors).max()), tmp_path, Mover(np.random.default_rng(1), 0.0, 0.0, 0))
    for tick, now in enumerate(vectors):
        found = field.tick(tick, now)
    assert found.state == "below"
    assert found.more["sent"]["reports"] == found.more["sent"]["references"] == len(SITES)
    assert found.more["sent"]["alive"] <= len(SITES) * (30 * 10 // (LEASE // 2) + 1)
    assert found.saved == found.checks - found.messages > 50
    files = [message for _, _, message in read_folder(tmp_path / "north" / TO_CENTRE)]
    assert [(one.kind, len(one.to_bytes()) <= 50) for one in files if isinstance(one, Message)] == [(ALIVE, True)]


def test_a_silent_site_makes_the_state_unknown(tmp_path: Path) -> None:
    """Silence is not quiet: after a lease nobody knows, and the sentence names the site and how long."""
    vectors = vectors_of("steady", 3, 1)
    rule = rule_of(100.0 * values_of(vectors).max())
    field = Field(rule, tmp_path, Mover(np.random.default_rng(1), 0.0, 0.0, 0))
    for tick, now in enumerate(vectors):
        assert field.tick(tick, now).state == "below"
    (later,) = standings(field.store, field.now + LEASE + 30)
    assert later.state == "unknown"
    assert "north was not heard of for" in later.reason
    assert "longer than the lease" in later.reason
    assert later.last == "below"


def both(tmp_path: Path, rule: Rule, now: int, vectors: Floats) -> None:
    """One check of all sites over one folder that all share, and one synchronisation."""
    for site, vector in zip(rule.sites, vectors, strict=True):
        check_vector(rule, site, tmp_path / f"state-{site}", tmp_path / "shared", now, vector)
    sync(rule, tmp_path / "c.duckdb", tmp_path / "shared", now)


def test_damaged_and_foreign_files_are_refused_with_a_sentence(tmp_path: Path) -> None:
    """They change nothing, and the next whole file is taken."""
    rule = rule_of(1e15)
    vectors = vectors_of("steady", 1, 1)[0]
    shared = tmp_path / "shared" / TO_CENTRE
    for site, vector in zip(SITES, vectors, strict=True):
        check_vector(rule, site, tmp_path / f"state-{site}", tmp_path / "shared", 1000, vector)
    good = next(shared.glob("hot.north.*")).read_bytes()
    whole = Message.from_bytes(good)
    bad = {
        "cut": good[:-3],
        "flipped": good[:20] + bytes([good[20] ^ 1]) + good[21:],
        "empty": b"",
        "noise": np.random.default_rng(1).bytes(500),
        "stranger": whole._replace(site="elsewhere").to_bytes(),
        "short": whole._replace(vectors=(whole.vectors[0][:5],)).to_bytes(),
        "early": whole._replace(as_of=10_000, check=9).to_bytes(),
        "huge": b"wmo1" + b"0" * (5 << 20),
    }
    for name, data in bad.items():
        (shared / f"{name}{SUFFIX}").write_bytes(data)
    found = sync(rule, tmp_path / "c.duckdb", tmp_path / "shared", 1000)
    assert len(found.problems) == len(bad)
    assert all("was left out" in problem for problem in found.problems)
    assert found.standing.state == "below"
    for name in bad:
        (shared / f"{name}{SUFFIX}").unlink()
    (shared / f"other{SUFFIX}").write_bytes(whole._replace(digest=b"8" * 8, check=99).to_bytes())
    assert sync(rule, tmp_path / "c.duckdb", tmp_path / "shared", 1001).problems == ()


def test_every_changed_byte_is_noticed() -> None:
    data = Message(REPORT, b"12345678", "north", 17, 3, 99, 2, vectors=(np.array([0.5, 7.0, -1.0]),)).to_bytes()
    for at in range(len(data)):
        with pytest.raises(WaneError):
            Message.from_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        with pytest.raises(WaneError):
            Message.from_bytes(data[:at])


def test_a_file_that_ends_early_is_refused_also_with_a_right_checksum() -> None:
    whole_one = Message(ALIVE, b"12345678", "north", 17, 3, 99, 2).to_bytes()[:-8]
    for length in range(len(whole_one)):
        begin = whole_one[:length]
        with pytest.raises(CorruptError):
            Message.from_bytes(begin + hashlib.blake2b(begin, digest_size=8).digest())


def test_old_references_and_reports_change_nothing(tmp_path: Path) -> None:
    """All files that ever were, sent once more in any order, leave the state as it is."""
    vectors = vectors_of("bursts", 12, 2)
    values = values_of(vectors)
    rule = rule_of(float(np.quantile(values, 0.5)))
    kept: dict[str, set[bytes]] = {TO_CENTRE: set(), TO_SITES: set()}
    for tick, now in enumerate(vectors):
        for _ in range(3):
            both(tmp_path, rule, 1000 + tick, now)
            for way, files in kept.items():
                files |= {path.read_bytes() for path in (tmp_path / "shared" / way).glob(f"*{SUFFIX}")}
    (before,) = standings(tmp_path / "c.duckdb", 1011)
    assert before.state == ("below" if values[-1] < rule.threshold else "above")
    rng = np.random.default_rng(1)
    for way, files in kept.items():
        assert len(files) > 10
        for data in sorted(files):
            (tmp_path / "shared" / way / f"again-{rng.integers(1 << 40)}{SUFFIX}").write_bytes(data)
    both(tmp_path, rule, 1012, vectors[-1])
    (after,) = standings(tmp_path / "c.duckdb", 1012)
    assert (after.state, after.value, after.more["synchronised"]) == (
        before.state,
        before.value,
        before.more["synchronised"],
    )


def test_a_site_that_lost_its_state_begins_anew(tmp_path: Path) -> None:
    """Its checks count from 1 again; the centre tells it from an old file by when its state was made."""
    vectors = vectors_of("steady", 8, 1)
    rule = rule_of(100.0 * values_of(vectors).max())
    for tick in range(4):
        both(tmp_path, rule, 1000 + tick, vectors[tick])
    for path in (tmp_path / "state-north").iterdir():
        path.unlink()
    for tick in range(4, 8):
        both(tmp_path, rule, 1000 + tick, vectors[tick])
    (found,) = standings(tmp_path / "c.duckdb", 1008)
    assert found.state == "below"
    checked = check_vector(rule, "north", tmp_path / "state-north", tmp_path / "shared", 1009, vectors[-1][0])
    assert checked.said == ""
    assert checked.check == 5


def test_a_centre_that_lost_its_state_begins_anew(tmp_path: Path) -> None:
    vectors = vectors_of("steady", 9, 1)
    rule = rule_of(100.0 * values_of(vectors).max())
    for tick in range(4):
        both(tmp_path, rule, 1000 + tick, vectors[tick])
    for path in state_folder(tmp_path / "c.duckdb").iterdir():
        path.unlink()
    seen = []
    for tick in range(4, 9):
        both(tmp_path, rule, 1000 + tick * 60, vectors[tick])
        seen.append(standings(tmp_path / "c.duckdb", 1000 + tick * 60)[0].state)
    assert seen[0] == "unknown"
    assert seen[-1] == "below"


@pytest.mark.parametrize("way", ["restored", "replaced", "replaced with a clock that is behind"])
def test_a_centre_that_is_not_the_one_the_sites_know_is_never_silently_wrong(tmp_path: Path, way: str) -> None:
    """Its references have numbers that others had before it; what sites hold is told by content, and asked anew."""
    wrong, said = [], 0
    for seed in range(2):
        rng = np.random.default_rng([seed, 4])
        vectors = vectors_of("bursts", 40, seed)
        values = values_of(vectors)
        rule = rule_of(float(np.quantile(values, 0.7)))
        field = Field(rule, tmp_path / str(seed), Mover(rng, 0.1, 0.0, 1))
        path = state_folder(field.store) / "hot.centre"
        kept, at, back = b"", int(rng.integers(6, 10)), int(rng.integers(14, 24))
        if "behind" in way:  # the first centre's clock is ahead
            back, field.behind = 5, -60
        for tick, now in enumerate(vectors):
            found = field.tick(tick, now)
            wrong += [(seed, tick)] * (
                found.state != "unknown" and (field.claimed() < rule.threshold) != (found.state == "below")
            )
            said += any("does not know" in problem for problem in field.problems)
            if tick == at:
                kept = path.read_bytes()
            if tick == back:
                path.write_bytes(kept) if way == "restored" else path.unlink()
                field.behind = 0
        for tick in range(40, 56):
            found = field.tick(tick, vectors[-1], whole=True)
        assert found.state == ("below" if values[-1] < rule.threshold else "above"), (seed, found.reason)
    assert wrong == []
    assert said > 0 or way == "replaced"  # by one that is known to be newer


def test_a_reference_of_the_same_number_and_other_content_confirms_nothing(tmp_path: Path) -> None:
    """A centre from a copy numbers its references as the lost one did: quiet under the lost one is no word for it."""
    rule = rule_of(1e15)
    vectors = vectors_of("steady", 9, 1)
    path = state_folder(tmp_path / "c.duckdb") / "hot.centre"
    both(tmp_path, rule, 1000, vectors[0])
    kept = path.read_bytes()
    both(tmp_path, rule, 1010, vectors[1])
    shared = tmp_path / "shared" / TO_CENTRE
    report = Message(REPORT, rule.digest, "north", 1000, 2, 1020, 1, vectors=(vectors[1][0],))
    for number in (1, 2):  # all sites speak, and there are new references; the second time to a centre from the copy
        for site, vector in zip(SITES, vectors[1 + number], strict=True):
            check = 2 * number
            one = report._replace(site=site, check=check, as_of=1010 + 10 * number, vectors=(vector,))
            (shared / f"hot.{site}.report{SUFFIX}").write_bytes(one.to_bytes())
        sync(rule, tmp_path / "c.duckdb", tmp_path / "shared", 1010 + 10 * number)
        if number == 1:
            (reference,) = [
                found
                for _, _, found in read_folder(tmp_path / "shared" / TO_SITES)
                if isinstance(found, Message) and found.site == "north"
            ]
            path.write_bytes(kept)
    state = read_state(path)
    assert state is not None
    assert state["sites"]["north"]["reference"][0] == reference.number
    confirmed = state["sites"]["north"]["confirmed"]
    held = Reference(reference.number, reference.check, len(SITES), rule.threshold, *reference.vectors)
    quiet = Message(ALIVE, rule.digest, "north", 1000, 9, 1040, reference.number, centre_born=1000)
    quiet = quiet._replace(mark=mark_of(held, whole(vectors[2][0])))
    (shared / f"hot.north.alive{SUFFIX}").write_bytes(quiet.to_bytes())
    found = sync(rule, tmp_path / "c.duckdb", tmp_path / "shared", 1040)
    assert found.standing.state == "unknown", confirmed
    assert "does not know" in found.problems[0]
    assert "north has a reference that the centre does not know" in found.standing.reason


def test_a_site_that_is_restored_from_a_copy_is_never_silently_wrong(tmp_path: Path) -> None:
    """It counts checks again that it has counted before, and holds another vector under the same number."""
    wrong = []
    for seed in range(2):
        rng = np.random.default_rng([seed, 5])
        vectors = vectors_of("bursts", 36, seed)
        values = values_of(vectors)
        rule = rule_of(float(np.quantile(values, 0.7)))
        field = Field(rule, tmp_path / str(seed), Mover(rng, 0.1, 0.0, 1))
        path = field.root / "north" / "state" / "hot.north.site"
        kept, at = b"", int(rng.integers(6, 10))
        back = at + int(rng.integers(1, 9))
        for tick, now in enumerate(vectors):
            found = field.tick(tick, now)
            wrong += [(seed, tick)] * (
                found.state != "unknown" and (field.claimed() < rule.threshold) != (found.state == "below")
            )
            kept = path.read_bytes() if tick == at else kept
            if tick == back:
                path.write_bytes(kept)
        for tick in range(36, 60):
            found = field.tick(tick, vectors[-1], whole=True)
        assert found.state == ("below" if values[-1] < rule.threshold else "above"), (seed, found.reason)
    assert wrong == []


def test_files_of_other_settings_are_told_by_name(tmp_path: Path) -> None:
    """At the centre and at the site, until both have the same; files of other rules are nobody's business."""
    vectors = vectors_of("steady", 6, 1)
    rule, other = rule_of(1e15), rule_of(2e15)
    shared = tmp_path / "shared"
    for site, vector in zip(SITES, vectors[0], strict=True):
        check_vector(other if site == "west" else rule, site, tmp_path / site, shared, 1000, vector)
        check_vector(rule_of(1.0, name="more"), site, tmp_path / site, shared, 1000, vector)
    found = sync(rule, tmp_path / "c.duckdb", shared, 1001)
    file = shared / TO_CENTRE / f"hot.west.report{SUFFIX}"
    said = "the settings of 'hot' at west are not those of this centre; both need the same"
    assert found.problems == (f"{file} was left out: {said}",)
    assert found.standing.reason == ("no report has come yet of west; the settings of west are not those of the centre")
    for tick in range(1, 3):
        both(tmp_path, rule, 1000 + 10 * tick, vectors[tick])
    checked = check_vector(other, "west", tmp_path / "state-west", shared, 1100, vectors[3][3])
    (problem,) = checked.problems
    assert "the settings of 'hot' at the centre are not those here" in problem
    found = sync(rule, tmp_path / "c.duckdb", shared, 1101)
    assert "at west are not those of this centre" in found.problems[0]
    later = standings(tmp_path / "c.duckdb", 1101 + LEASE)[0]
    assert "the settings of west are not those of the centre any more" in later.reason
    both(tmp_path, rule, 1200, vectors[4])
    found = sync(rule, tmp_path / "c.duckdb", shared, 1201)
    assert found.problems == ()


def test_a_changed_rule_takes_no_old_file(tmp_path: Path) -> None:
    """The digest covers all that sites and centre must agree about."""
    vectors = vectors_of("steady", 2, 1)
    rule = rule_of(1e15)
    both(tmp_path, rule, 1000, vectors[0])
    changes: list[dict[str, Any]] = [
        {"threshold": 2e15},
        {"window": "window:11m"},
        {"lease": 101},
        {"promise": "certain"},
        {"sites": (*SITES, "more")},
        {"streams": ("others",)},
        {"sketch": Ecm.build(Events.of([], []), epsilon=0.5, delta=0.2, seed=3)},
        {"function": "share", "value": "k"},
        {"name": "other"},
    ]
    digests = {rule.digest, *(replace(rule, **change).digest for change in changes)}
    assert len(digests) == len(changes) + 1
    found = sync(replace(rule, threshold=2e15), tmp_path / "d.duckdb", tmp_path / "shared", 1001)
    assert found.standing.state == "unknown"
    assert "no report has come yet of north" in found.standing.reason


def test_a_kill_leaves_a_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At whatever step of the writing: the old content or the new one, never a part."""
    import os

    path = tmp_path / "state"
    write_whole(path, b"old")
    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:

            def stop(*_: object, **__: object) -> None:
                raise KeyboardInterrupt

            patch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), stop)
            with pytest.raises(KeyboardInterrupt):
                write_whole(path, b"new and longer")
        assert path.read_bytes() == b"old"
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_damaged_state_is_told(tmp_path: Path) -> None:
    rule = rule_of(1e15)
    vector = vectors_of("steady", 1, 1)[0][0]
    check_vector(rule, "north", tmp_path, tmp_path / "shared", 1000, vector)
    (path,) = tmp_path.glob("*.site")
    path.write_bytes(path.read_bytes().replace(b'"check": 1', b'"check": 2'))
    with pytest.raises(WaneError, match="damaged; remove it"):
        check_vector(rule, "north", tmp_path, tmp_path / "shared", 1001, vector)


def test_a_report_is_written_down_before_it_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between the two leaves a report that the next check sends."""
    import store.monitoring.site_check as module

    rule, vector = rule_of(1e15), vectors_of("steady", 1, 1)[0][0]
    with monkeypatch.context() as patch:

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(module, "write_whole", stop)
        with pytest.raises(KeyboardInterrupt):
            check_vector(rule, "north", tmp_path / "state", tmp_path / "shared", 1000, vector)
    again = check_vector(rule, "north", tmp_path / "state", tmp_path / "shared", 1001, vector)
    assert (again.said, again.check) == ("repeat", 2)


def test_names_may_hold_any_character() -> None:
    assert file_name("a/b", "..", "ü.x") == "a%2Fb.%2E%2E.%C3%BC%2Ex"


def test_an_unknown_site_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(WaneError, match="its sites are north, south, east, west"):
        check_vector(rule_of(1.0), "nord", tmp_path, tmp_path, 1, np.zeros(3))


def test_a_reference_of_another_length_is_refused(tmp_path: Path) -> None:
    rule, vector = rule_of(1e15), vectors_of("steady", 1, 1)[0][0]
    message = Message(REFERENCE, rule.digest, "north", 5, 1, number=3, site_born=1000, vectors=(np.ones(2), np.ones(2)))
    (tmp_path / TO_SITES).mkdir()
    (tmp_path / TO_SITES / f"x{SUFFIX}").write_bytes(message.to_bytes())
    found = check_vector(rule, "north", tmp_path, tmp_path, 1000, vector)
    assert "has 2 numbers" in found.problems[0]
    assert found.said == "report"
