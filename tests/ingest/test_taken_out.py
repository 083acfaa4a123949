"""Families with one sketch for many epochs lose events by retention, by `wane forget` and by a backfill, end to end.

What is asked afterwards is true of the events that are left, to the certainty that is claimed.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import wane
from sketches.arrays import Flags
from sketches.decay import parse_decay
from sketches.registry import load
from tests.support.runs import configure, write
from tests.support.stores import payloads
from tests.support.streams import Stream

DAY: Final = 86_400
START: Final = 1_700_006_400
DECAY: Final = "poly:alpha=1,unit=1m"
BLOCKS: Final = ("wbmh", "division")
FAMILIES: Final = (
    'families = ["wbmh", "division"]\n'
    f'[streams.calls.wbmh]\ndecay = "{DECAY}"\n[streams.calls.division]\ndecay = "{DECAY}"\n'
)
ROWS: Final = 8000
TAIL: Final = 200


@pytest.fixture
def stream() -> Stream:
    """Forty days, a tenth of which came up to three days late."""
    rng = np.random.default_rng(3)
    t = np.sort(START + rng.integers(0, 40 * DAY, ROWS))
    v = np.round(np.exp(rng.normal(3.0, 1.5, ROWS))).astype(np.int64)
    arrives = np.argsort(t + np.where(rng.random(ROWS) < 0.1, rng.integers(0, 3 * DAY, ROWS), 0), kind="stable")
    return Stream.of("forty days", np.arange(ROWS), t, v, rng.integers(0, 9, ROWS)).take(arrives)


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def in_order(stream: Stream, parts: int) -> list[Stream]:
    return [stream.take(rows) for rows in np.array_split(np.arange(len(stream)), parts)]


def run(*more: str) -> None:
    assert wane.main(["ingest", "--config", "wane.toml", "--engine", "local", "--stream", "calls", *more]) == 0


def said(*arguments: str) -> str:
    """What the command line prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert wane.main([*arguments]) == 0
    return printed.getvalue()


def questions(now: int) -> Iterator[tuple[str, str, list[str]]]:
    for decay in (DECAY, "none", "exp:half_life=5d"):
        yield decay, "count", []
        yield decay, "sum", []
        yield decay, "correlated-count", ["--tau", str(TAIL)]
    yield DECAY, "selectivity", ["--tau", str(TAIL)]
    yield "none", "count", ["--as-of", str(now - 2 * DAY)]


def check(stream: Stream, left: Flags, *, widest: float | None) -> None:
    """Every answer has the exact one of the events that are left; under its own decay a rare tail is still told."""
    now = int(stream.t[left].max())
    for family in BLOCKS:
        for decay, aggregate, more in questions(now):
            found = answer(family, aggregate, decay, *more)
            moment = int(more[1]) if "--as-of" in more else now
            faded = parse_decay(decay)((moment - stream.t).astype(float)) * (left & (stream.t <= moment))
            tail = faded[stream.v >= TAIL].sum()
            exact = {
                "count": faded.sum(),
                "sum": (faded * stream.w).sum(),
                "correlated-count": tail,
                "selectivity": tail / faded.sum(),
            }[aggregate]
            case = (family, decay, aggregate, found, exact)
            assert found["lower"] * (1 - 1e-9) <= exact <= found["upper"] * (1 + 1e-9), case
            if widest is not None and family == "wbmh" and decay == DECAY and not more:
                assert found["upper"] - found["lower"] <= widest * exact, case
    for data in payloads(Path("wane.duckdb")).values():
        assert load(data).to_bytes() == data


def answer(family: str, aggregate: str, decay: str, *more: str) -> dict[str, float]:
    asked = ("query", "--store", "wane.duckdb", "--stream", "calls", "--family", family, "--json")
    found: dict[str, float] = json.loads(said(*asked, "--aggregate", aggregate, "--decay", decay, *more))
    assert "INCOMPLETE" not in str(found), found
    return found


def test_what_is_older_than_the_retention_no_longer_counts(tmp_path: Path, stream: Stream) -> None:
    """Only a block that the kept time begins in is in doubt; late events that are too old stay out, too."""
    configure(tmp_path, FAMILIES, retention="20d", epoch="1h")
    for number, part in enumerate(in_order(stream, 3)):
        write(tmp_path / f"raw/{number}.parquet", part)
        run()
    since = (int(stream.t.max()) - 20 * DAY) // 3600 * 3600
    assert (stream.t < since).sum() > 1000
    check(stream, stream.t >= since, widest=0.25)
    late = Stream.of("too late", [ROWS, ROWS + 2], [since - DAY, since + DAY], [9, 9], [1, 1])
    write(tmp_path / "raw/late.parquet", late)
    run()
    both = Stream.of("both", *(np.concatenate([getattr(stream, n), getattr(late, n)]) for n in ("ids", "t", "v", "w")))
    check(both, both.t >= since, widest=0.25)


def test_a_source_or_a_time_is_forgotten_and_ingest_goes_on(tmp_path: Path, stream: Stream) -> None:
    """What is left answers, no value that was forgotten is in the bytes, and a backfill of all times is exact again."""
    configure(tmp_path, FAMILIES, epoch="1h")
    first, second = in_order(stream, 2)
    write(tmp_path / "raw/1.parquet", first)
    run()
    begin, end = START + 4 * DAY + 1000, START + 9 * DAY + 50
    told = forget("--from", str(begin), "--to", str(end))
    assert "a backfill of that time narrows what is then in doubt" in told
    write(tmp_path / "raw/2.parquet", second)
    run()
    gone = np.isin(stream.ids, first.ids) & (stream.t >= begin) & (stream.t < end)
    assert gone.sum() > 500
    check(stream, ~gone, widest=None)
    forget("--source", "north")
    south = stream.ids % 2 == 1
    check(stream, ~gone & south, widest=None)
    write(tmp_path / "raw/3.parquet", Stream.of("anew", [2 * ROWS], [int(stream.t.max())], [300], [1]))
    run()
    assert answer("wbmh", "count", "none", "--source", "north")["estimate"] == 1.0
    (tmp_path / "raw/3.parquet").unlink()
    run("--backfill", f"{START - DAY}..{START + 41 * DAY}", "--allow-missing")
    check(stream, np.ones(ROWS, bool), widest=0.2)


def forget(*what: str) -> str:
    return said("forget", "--store", "wane.duckdb", "--stream", "calls", *what)


def test_a_backfill_of_some_days_is_taken(tmp_path: Path, stream: Stream) -> None:
    """What a file had too much of is gone, and the edges of the range are in doubt, which the interval has."""
    configure(tmp_path, FAMILIES, epoch="1h")
    middle = (stream.t >= START + 10 * DAY) & (stream.t < START + 12 * DAY)
    write(tmp_path / "raw/1.parquet", stream.take(~middle))
    write(tmp_path / "raw/2.parquet", stream.take(middle))
    run()
    wrong = middle & (np.arange(ROWS) % 3 == 0)
    write(tmp_path / "raw/2.parquet", stream.take(middle & ~wrong))
    run("--backfill", f"{START + 10 * DAY}..{START + 12 * DAY}")
    check(stream, ~wrong, widest=None)
    found = answer("wbmh", "count", "none")
    assert not math.isclose(found["lower"], found["upper"])
    configure(
        tmp_path, FAMILIES.replace('"wbmh", "division"', '"wbmh"').split("[streams.calls.division]")[0], epoch="1h"
    )
    run("--backfill", f"{START - DAY}..{START + 41 * DAY}")
    assert {family for *_, family in payloads(Path("wane.duckdb"))} == {"wbmh"}
    assert answer("wbmh", "count", "none")["lower"] == (~wrong).sum()
