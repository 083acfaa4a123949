"""Hostile input for whatever reads bytes or text from elsewhere: sketches, settings, decays, addresses of pages.

Each target makes an input from a random generator and reads it. What comes of it may be an answer or one of wane's own
errors, and nothing else; it may take no more than 100 MB and a few seconds.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from dashboard.asking.address import from_parameters, to_parameters
from dashboard.asking.answer_cache import AnswerCache
from dashboard.asking.view import View
from ingest.driver.configuration.settings import read_settings
from sketches import Sample
from sketches.decay import parse_decay
from sketches.encoding.envelope import NEWEST_VERSION, open_envelope, seal
from sketches.errors import WaneError
from sketches.family import Sketch
from sketches.question import Question
from sketches.registry import FAMILIES, load
from sketches.vocabulary import EXAMPLES
from store.monitoring.messages import ALIVE, REFERENCE, REPORT, REQUEST, Message
from store.packed_columns import read_table, write_table
from tests.support import dashboard_stores
from tests.support.paths import ROOT

MOST_BYTES: Final = 100 << 20
MOST_SECONDS: Final = 20.0
NUMBERS: Final = ("0", "-1", "1e400", "nan", "inf", "1e-320", "9" * 400, "0x10", "1_000", "٣", "", " ", "-0.0", "1e18")
TEXTS: Final = (
    "'",
    '"',
    "\x00",
    "\ud800",
    "\u202e",
    "😀" * 50,
    "a" * 800,
    "%s",
    "../..",
    "<b>",
    "\n",
    "\\",
    "=",
    ",",
    ":",
)
UNITS: Final = ("1h", "0s", "-1d", "1e300d", "1x", "36500d", "1ns")


@dataclass(frozen=True, slots=True)
class Fault:
    """What a target did that it may not."""

    target: str
    seed: int
    what: str


@dataclass
class Tried:
    """What came of the inputs of a target: a shallow one takes none of them."""

    inputs: int = 0
    taken: int = 0  # without an error of ours
    faults: list[Fault] = field(default_factory=list)


def tried(target: str, seeds: Iterator[int] | range, folder: Path, seconds: float = math.inf) -> Tried:
    """Try a target with these seeds, for so many seconds at most after it is prepared."""
    attempt, found = TARGETS[target](folder), Tried()
    until = time.monotonic() + seconds
    tracemalloc.start()
    try:
        for seed in seeds:
            if time.monotonic() > until:
                break
            found.inputs += 1
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            begun = time.monotonic()
            try:
                with np.errstate(all="ignore"):
                    attempt(random.Random(seed))
                found.taken += 1
            except WaneError:
                pass
            except Exception as error:  # noqa: BLE001  this is what is looked for
                found.faults.append(Fault(target, seed, f"{type(error).__name__}: {str(error)[:200]}"))
            seconds, taken = time.monotonic() - begun, tracemalloc.get_traced_memory()[1] - before
            if taken > MOST_BYTES:
                found.faults.append(Fault(target, seed, f"took {taken >> 20} MB"))
            if seconds > MOST_SECONDS:
                found.faults.append(Fault(target, seed, f"took {seconds:.0f} s"))
    finally:
        tracemalloc.stop()
    return found


@cache
def _golden() -> list[bytes]:
    return [file.read_bytes() for file in sorted((ROOT / "tests/golden").glob("*.bin"))]


def _bytes_of(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """The bytes with some of them changed, doubled, left out, or taken from elsewhere."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(6):
            case 0:
                found[at : at + 1] = bytes([rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))])
            case 1:
                extreme = rng.choice(
                    (np.float64("nan"), np.float64("inf"), np.int64(-1), np.int64(2**62), np.uint64(2**63))
                )
                found[at : at + 8] = extreme.tobytes()
            case 2:
                del found[at : at + rng.choice((1, 8, 64))]
            case 3:
                found[at:at] = found[at : at + rng.choice((1, 8, 64))]
            case 4:
                other = rng.choice(others)
                found[at:] = other[min(at, len(other)) :]
            case _:
                found[at:at] = rng.randbytes(rng.choice((1, 4, 16)))
    return bytes(found)


def _used(sketch: Sketch) -> None:
    """Whatever was read is asked, merged with itself, written and read again."""
    for question in (Question("count", "window:1h"), Question("median"), Question("heavy-hitters", phi=0.1)):
        try:
            type(sketch).askable([sketch]).answer(question)
        except WaneError:
            continue
    type(sketch).from_bytes(sketch.merge(sketch).to_bytes())


def _wire(folder: Path) -> Callable[[random.Random], None]:
    """Payloads of every family and version, changed and sealed again, so that no checksum protects their readers."""
    families: dict[str, list[bytes]] = {}
    for payload in _golden():
        families.setdefault(open_envelope(payload).family, []).append(payload)
        _used(load(payload))  # compiles what it needs, which must not count as time and memory of a case
    names = [name for name, family in FAMILIES.items() if family.__module__.startswith("sketches.")]
    assert names == [name for name in names if name in families], "one without golden bytes would never be forged"

    def attempt(rng: random.Random) -> None:
        payloads = families[rng.choice(names)]
        data = rng.choice(payloads)
        if rng.random() < 0.1:
            load(_bytes_of(rng, data, payloads))
            return
        parts = open_envelope(data)
        alike = [open_envelope(rng.choice(payloads)), parts]
        parameters, body, version = parts.parameters, parts.body, parts.version
        if rng.random() < 0.4:
            parameters = _bytes_of(rng, parameters, [one.parameters for one in alike])
        if rng.random() < 0.7:
            body = _bytes_of(rng, body, [one.body for one in alike])
        if rng.random() < 0.1:
            version = rng.randint(1, NEWEST_VERSION)
        _used(load(seal(parts.family, version, parameters, parts.seed, body)))

    return attempt


def _monitor_files(folder: Path) -> Callable[[random.Random], None]:
    """What sites and centre exchange, changed, with checksums that are right."""
    vectors = np.arange(400.0) / 2.0, -np.arange(400.0) / 1024.0
    facts: dict[str, Any] = {"check": 3, "as_of": 1_700_000_000, "number": 9, "centre_born": 1_600_000_000, "mark": 77}
    whole = [
        Message(REPORT, b"12345678", "north", 1_600_000_000, vectors=vectors[:1], **facts).to_bytes(),
        Message(ALIVE, b"12345678", "ü" * 30, 0, **facts).to_bytes(),
        Message(REFERENCE, b"12345678", "north", 5, 3, number=9, site_born=7, vectors=vectors).to_bytes(),
        Message(REQUEST, b"12345678", "north", 5, number=9).to_bytes(),
    ]

    def attempt(rng: random.Random) -> None:
        begin = _bytes_of(rng, rng.choice(whole)[:-8], whole)
        found = Message.from_bytes(begin + hashlib.blake2b(begin, digest_size=8).digest())
        if Message.from_bytes(found.to_bytes()).to_bytes() != found.to_bytes():
            raise AssertionError("it is not read as it is written")

    return attempt


def _segments(folder: Path) -> Callable[[random.Random], None]:
    """Samples as the store has them, a head and segments, changed, with checksums that are right."""
    samples = [sketch for sketch in map(load, _golden()) if isinstance(sketch, Sample)]
    stored = [sample.parts(600) for sample in samples if sample.rows.times.size]
    others = [segment.payload for parts in stored for segment in parts.segments]
    for sample in samples:
        _used(sample)

    def attempt(rng: random.Random) -> None:
        parts = rng.choice(stored)
        payloads = [segment.payload for segment in parts.segments]
        for _ in range(rng.choice((1, 1, 2))):
            at = rng.randrange(len(payloads))
            body = _bytes_of(rng, payloads[at][:-8], others)
            payloads[at] = body + hashlib.blake2b(body, digest_size=8).digest()
        sketch, damaged = Sample.from_parts(parts.head, payloads)
        if len(damaged) < len(payloads):
            _used(sketch)

    return attempt


def _tables(folder: Path) -> Callable[[random.Random], None]:
    """Packed tables, as the store has its ledger and its totals by source."""
    rows = np.arange(300)
    texts = np.array([f"/data/calls/{number:04}.parquet" for number in rows.tolist()], object)
    prints = np.array([f"{number * 7919:032x}" for number in rows.tolist()], object)
    some = np.ma.masked_array(rows * 3600 - 5, rows % 7 == 0)
    tables = [
        write_table({"path": texts, "fingerprint": prints, "rows": rows, "oldest": some}),
        write_table({"at": rows.astype("datetime64[us]"), "path": texts[:1].repeat(300)}),
        write_table({}),
    ]

    def attempt(rng: random.Random) -> None:
        found = read_table(_bytes_of(rng, rng.choice(tables), tables))
        if len({len(column) for column in found.values()}) > 1:
            raise AssertionError("columns of different lengths")

    return attempt


def _settings(folder: Path) -> Callable[[random.Random], None]:
    """The settings of docs/operations.md with values, keys and lines changed."""
    page = (ROOT / "docs/operations.md").read_text()
    whole = page[page.index("```toml\n") + 8 :]
    lines = whole[: whole.index("```")].splitlines()
    values = (
        "[]",
        "{}",
        "true",
        "1e400",
        "nan",
        "-1",
        "9" * 30,
        '""',
        "'''\n'''",
        "1979-05-27",
        "[[1]]",
        '["sample"]',
        '"ecm"',
    )
    file = folder / "wane.toml"

    def attempt(rng: random.Random) -> None:
        text = list(lines)
        for _ in range(rng.choice((1, 1, 2, 6))):
            at = rng.randrange(len(text))
            key, equals, _ = text[at].partition("=")
            nasty = rng.choice((*NUMBERS, *TEXTS, *UNITS))
            match rng.randrange(6):
                case 0 | 1 if equals:
                    text[at] = f"{key}= {rng.choice(values)}"
                case 2 if equals:
                    text[at] = f'{key}= "{nasty}"'
                case 3:
                    text[at] = rng.choice(text)
                case 4:
                    del text[at : at + rng.randrange(1, 4)]
                    text = text or [""]
                case _:
                    line, where = text[at], rng.randrange(len(text[at]) + 1)
                    text[at] = line[:where] + nasty + line[where + rng.randrange(3) :]
        file.write_bytes("\n".join(text).encode(errors="surrogatepass"))
        read_settings(file)

    return attempt


_PARTS: Final = (
    *("age", "exp", "log", "sqrt", "pow", "min", "max", "abs", "(", ")", "+", "-", "*", "/", "^", ",", "=", ":"),
    *("1", "2", "0.5", "1e308", "half_life", "window", "unit", "alpha"),
    *UNITS,
    *NUMBERS,
    *TEXTS,
)


def _decay_text(rng: random.Random) -> str:
    text = rng.choice(list(EXAMPLES.values()))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(_PARTS) + text[at + rng.randrange(4) :]
    if rng.random() < 0.2:
        text = "expr:" + "".join(rng.choice(_PARTS) for _ in range(rng.randrange(1, 30)))
    return text + rng.choice(("", "", ",window=1d", ",window=0s"))


def _decays(folder: Path) -> Callable[[random.Random], None]:
    """Decays and formulas: what is taken gives weights, and reads its own text."""
    ages = np.array([0.0, 1.0, 59.5, 3600.0, 1e9, 1e15])

    def attempt(rng: random.Random) -> None:
        decay = parse_decay(_decay_text(rng))
        if parse_decay(decay.spec).spec != decay.spec:
            raise AssertionError(f"{decay.spec} does not read its own text")
        if decay.spec.startswith("last:"):
            return
        weights = np.asarray(decay(ages))
        if not (
            np.isfinite(weights).all() and (weights >= 0).all() and (np.diff(weights) <= 1e-12 * weights[:-1]).all()
        ):
            raise AssertionError(f"{decay.spec} weighs {weights.tolist()}")

    return attempt


def _addresses(folder: Path) -> Callable[[random.Random], None]:
    """Addresses of pages: the view that is made of one is written and read alike, and asked."""
    answers = AnswerCache(dashboard_stores.build(folder))
    catalogue = answers.catalogue()
    names = [name.replace("_", "-") for name in View.__dataclass_fields__]
    words = (
        *catalogue.streams,
        *dashboard_stores.SITES,
        "sum",
        "count",
        "median",
        "mean",
        "rate",
        "quantile",
        "top",
        "on",
        "source",
    )
    terms = (
        "value > 1",
        "weight >= median(weight)",
        "source = 'north' or not value in (1, 2)",
        "value between 1 and",
        "x like '%'",
    )

    def attempt(rng: random.Random) -> None:
        given = {}
        for name in rng.sample(names, rng.randrange(1, 7)):
            kinds = (words, NUMBERS, TEXTS, UNITS, terms, (_decay_text(rng),))
            given[name] = [rng.choice(rng.choice(kinds)) for _ in range(rng.choice((1, 1, 1, 2)))]
        given["stream"] = given.get("stream") if rng.random() < 0.1 and "stream" in given else [rng.choice(words[:4])]
        view, _ = from_parameters(given, catalogue)
        again, problems = from_parameters(to_parameters(view), catalogue)
        if again != view or problems:
            raise AssertionError(f"{to_parameters(view)} is read as another view: {problems}")
        stream = catalogue.streams[view.stream]
        answers.ask(view, stream)
        answers.series(view, stream, answers.moments(view, stream, 3600.0)[:3])

    return attempt


TARGETS: Final[dict[str, Callable[[Path], Callable[[random.Random], None]]]] = {
    "wire format": _wire,
    "segments": _segments,
    "packed tables": _tables,
    "monitor files": _monitor_files,
    "settings": _settings,
    "decays": _decays,
    "addresses": _addresses,
}
