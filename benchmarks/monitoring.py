"""What watching a threshold with many sites costs, beside sending every site's vector at every check; and E's sites.

    python -m benchmarks.monitoring [--seeds 100] [--seconds 1200] [--publish]
    python -m benchmarks.monitoring --processes 16 [--publish]       sites that are processes with stores of their own

Every seed deals the rows of a stream out to the sites anew, draws a new sketch and plays the stream check by check. At
every check the centre's side is compared with the sum of what all sites hold, and with the exact number over all rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from benchmarks.report import picture, publish, table
from sketches import Ecm, Events
from sketches.arrays import Floats, Ints
from sketches.hashing import hash_text
from sketches.monitoring.readings import Shape
from sketches.monitoring.watched import Join, Side, Watched
from sketches.monitoring.zones import LargeRows, Zone
from store.monitoring.messages import REFERENCE, REPORT, REQUEST, Message
from tests.support.watching import Network

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "data"
SITES: Final = (4, 16, 64, 256)
TICKS: Final = 150
WINDOW: Final = 50  # ticks
FACTORS: Final = (1.01, 1.1, 1.3, 2.0)  # from the median value to the threshold
FEW: Final = 8  # seeds with many sites
KINDS: Final = ("as it came", "falling", "silent", "burst")
EPSILON: Final = 0.1
DELTA: Final = 0.1


class Balls(Join):
    """The least row, watched by the ball test."""

    def zone(self, total: Floats, threshold: float) -> tuple[Side, Zone]:
        side = Side.BELOW if self.value(total) < threshold else Side.ABOVE
        return side, self.balls(total, threshold)


class Least(Join):
    """The least row, watched by zones on both sides."""

    def zone(self, total: Floats, threshold: float) -> tuple[Side, Zone]:
        if self.value(total) < threshold:
            return super().zone(total, threshold)
        rows = np.arange(self.shape.rows)
        return Side.ABOVE, LargeRows(self.form, rows, threshold, total.reshape(self.shape.rows, self.shape.width))


@dataclass
class Played:
    """What a stream cost under one way of watching, added up over seeds."""

    checks: int = 0  # of all sites
    messages: int = 0
    bytes: int = 0
    periodic_bytes: int = 0
    wrong: int = 0  # checks on the wrong side of the own estimate
    asked: int = 0
    crossings: int = 0  # checks at which the truth is on the other side than the state
    missed: int = 0  # truth at the threshold or above while the state is below
    runs: int = 0
    sides: dict[str, int] = field(default_factory=dict)  # checks by what the centre said


COUNTED: Final = ("checks", "messages", "bytes", "periodic_bytes", "wrong", "asked", "crossings", "missed", "runs")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=100)
    options.add_argument("--sites", type=int, action="append", default=[], help="so many sites; several times")
    options.add_argument("--first", type=int, default=0, help="the first seed that is played")
    options.add_argument("--seconds", type=float, default=1200.0, help="CPU seconds at most: then seeds are fewer")
    options.add_argument("--processes", type=int, default=0, help="real sites instead: so many processes")
    options.add_argument("--kept", type=Path, help="a file of results by seed: what is in it is not played again")
    options.add_argument("--publish", action="store_true", help="put the tables into docs/benchmarks.md")
    given = options.parse_args()
    command = " ".join(["python -m benchmarks.monitoring", *sys.argv[1:]])
    if given.processes:
        from benchmarks.monitoring_processes import experiment  # noqa: PLC0415

        name, text, wrong = "Monitoring: sites as processes", *experiment(given.processes)
    else:
        name, text, wrong = "Monitoring", *simulated(given.first, given.seeds, given.seconds, given.kept, given.sites)
    if given.publish:
        publish("benchmarks.md", name, command, text)
    else:
        print(text)
    sys.exit(1 if wrong else 0)


def streams() -> Iterator[tuple[str, Ints, Ints]]:
    """Times cut into ticks, and keys."""
    rng = np.random.default_rng(1)
    yield "Zipf 1.2", np.sort(rng.integers(0, TICKS, 60_000)), np.minimum(rng.zipf(1.2, 60_000), 1 << 40)
    for name in ("zeek_wrccdc", "online_retail"):
        columns = pq.read_table(DATA / f"{name}.parquet", columns=["ts", "key"])
        times = columns["ts"].to_numpy()
        order = np.argsort(times, kind="stable")[:: 2 if name == "zeek_wrccdc" else 8]
        keys = hash_text(np.array(columns["key"].to_pylist(), object)).view(np.int64)[order]
        ticks = np.minimum((times[order] - times.min()) * TICKS // (times.max() + 1 - times.min()), TICKS - 1)
        yield name, ticks, keys


def dealt(kind: str, ticks: Ints, keys: Ints, sites: int, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    """Rows and the site of each: as they came, fading away, from half of the sites only, or with a burst of one key."""
    owner = rng.integers(0, sites, len(ticks))
    keep = np.ones(len(ticks), np.bool_)
    if kind == "falling":
        keep = rng.random(len(ticks)) < np.exp(-4.0 * ticks / TICKS)
    elif kind == "silent":
        keep = (ticks < TICKS // 2) | (owner < max(sites // 2, 1))
    elif kind == "burst":
        hot = (ticks > TICKS // 2) & (ticks < TICKS // 2 + 15) & (rng.random(len(ticks)) < 0.5)
        keys = np.where(hot, keys[0], keys)
    return ticks[keep], keys[keep], owner[keep]


def held(ticks: Ints, keys: Ints, owner: Ints, sites: int, seed: int) -> tuple[Floats, Floats, Floats, Shape]:
    """What the counters of every site hold over the window at every tick, middle and upper limits; and the truth.

    One sketch of each site as of every tick, read at every tick at once: an epoch a tick would read the same entries.
    """
    from sketches.question import Question  # noqa: PLC0415

    middle, upper = [], []
    moments = np.arange(WINDOW - 1, TICKS, dtype=np.int64)
    asked = Question("self-join", f"window:{WINDOW}s")
    for site in range(sites):
        mine = owner == site
        sketch = Ecm.build(
            Events.of(np.flatnonzero(mine), ticks[mine], keys[mine]), epsilon=EPSILON, delta=DELTA, seed=seed
        )
        shape = sketch.shape
        cells = np.arange(shape.rows * shape.width)
        value, _, most = Ecm.askable([sketch]).contents_of(asked, moments, cells)
        middle.append(value)
        upper.append(np.ceil(most - 1e-3))
    unique, places = np.unique(keys, return_inverse=True)
    order = np.argsort(ticks, kind="stable")
    ticks, places = ticks[order], places.reshape(-1)[order]
    truth = []
    for now in moments.tolist():
        inside = slice(*np.searchsorted(ticks, (now - WINDOW + 1, now + 1)))
        counts = np.bincount(places[inside], minlength=len(unique)).astype(np.float64)
        truth.append(float(counts @ counts))
    return np.array(middle).swapaxes(0, 1), np.array(upper).swapaxes(0, 1), np.array(truth), shape


def size_of(kind: int, vector: Floats, memory: dict[Any, int]) -> int:
    """Bytes of a message; those of vectors are measured once a run and way."""
    if kind not in memory:
        vectors = {REPORT: (vector,), REFERENCE: (vector * 16, np.zeros_like(vector))}.get(kind, ())
        memory[kind] = len(
            Message(
                kind, b"12345678", "site-17", 1_700_000_000, 99, 1_700_000_000, 99, 1_700_000_000, vectors
            ).to_bytes()
        )
    return memory[kind]


def play(watched: Watched, vectors: Floats, truth: Floats, threshold: float, into: Played, *, balances: bool) -> None:
    sites = vectors.shape[1]
    network = Network(watched, threshold, [f"s{at}" for at in range(sites)], balances=balances)
    certain = getattr(watched, "certain", False) and not isinstance(watched, Balls | Least)
    for at, (now, exact) in enumerate(zip(vectors, truth, strict=True)):
        side = network.check(now, at)
        own = watched.value(now.sum(axis=0))
        expected = Side.BELOW if own < threshold else Side.POSSIBLE if certain else Side.ABOVE
        into.wrong += side is not expected
        into.missed += side is Side.BELOW and exact >= threshold
        into.crossings += (side is Side.BELOW) != (exact < threshold)
        into.sides[str(side)] = into.sides.get(str(side), 0) + 1
    sent, memory = network.sent, {}
    vector = vectors[len(vectors) // 2, 0]
    report, reference, request = (size_of(kind, vector, memory) for kind in (REPORT, REFERENCE, REQUEST))
    into.messages += sent.messages
    into.bytes += sent.reports * report + (sent.references + sent.slacks) * reference + sent.asks * request
    into.checks += len(vectors) * sites
    into.periodic_bytes += len(vectors) * sites * report
    into.asked += len(vectors)
    into.runs += 1


def simulated(first: int, seeds: int, seconds: float, kept: Path | None, numbers: list[int]) -> tuple[str, bool]:
    """All seeds, as far as time goes; few of them with many sites, which take as long as all others."""
    begun = time.process_time()
    every = list(streams())
    lines = dict(enumerate(kept.read_text().splitlines())) if kept is not None and kept.exists() else {}
    done = {json.loads(line)[0] for line in lines.values()}
    for seed in sorted(set(range(first, seeds)) - done):
        if time.process_time() - begun > seconds:
            break
        lines[len(lines)] = json.dumps(
            [seed, [[key, asdict(one)] for key, one in seed_of(seed, every, numbers).items()]], default=int
        )
        if kept is not None:
            with kept.open("a") as opened:
                opened.write(lines[len(lines) - 1] + "\n")
        print(f"seed {seed}: {time.process_time() - begun:.0f} CPU s", file=sys.stderr, flush=True)
    found: dict[tuple[Any, ...], Played] = defaultdict(Played)
    for line in lines.values():
        for key, one in json.loads(line)[1]:
            found[tuple(key)] = summed([found[tuple(key)], Played(**one)])
    return shown(
        found, len(done | {json.loads(line)[0] for line in lines.values()}), sum(one.asked for one in found.values())
    )


def seed_of(seed: int, every: list[tuple[str, Ints, Ints]], numbers: list[int]) -> dict[tuple[Any, ...], Played]:
    found: dict[tuple[Any, ...], Played] = defaultdict(Played)
    kind = KINDS[seed % len(KINDS)]
    for name, ticks, keys in every:
        for sites in numbers or (SITES if seed < FEW else SITES[:2]):
            rng = np.random.default_rng([seed, sites])
            rows = dealt(kind, ticks, keys, sites, rng)
            middle, upper, truth, shape = held(*rows, sites, seed)
            ways = [("estimate", Join(shape), middle, True), ("certain", Join(shape, certain=True), upper, True)]
            if sites == 16 and seed < FEW:
                least = Least(shape, certain=True)
                ways += [("balls", Balls(shape, certain=True), middle, False)]
                ways += [("zones", least, middle, False), ("zones and balancing", least, middle, True)]
            for way, watched, vectors, balances in ways:
                base = float(np.median([watched.value(one) for one in vectors.sum(axis=1)]))
                for factor in FACTORS if way in ("estimate", "certain") else FACTORS[1:3]:
                    into = found[name, kind, sites, factor, way]
                    play(watched, vectors, truth, base * factor, into, balances=balances)
    return found


def summed(parts: Iterable[Played]) -> Played:
    total = Played()
    for one in parts:
        for name in COUNTED:
            setattr(total, name, getattr(total, name) + getattr(one, name))
        for side, checks in one.sides.items():
            total.sides[side] = total.sides.get(side, 0) + checks
    return total


def added(found: dict[Any, Played], **chosen: Any) -> Played:
    """All that agrees with what is chosen, added up."""
    names = ("stream", "kind", "sites", "factor", "way")
    keys = {key: dict(zip(names, key, strict=True)) for key in found}
    return summed(one for key, one in found.items() if all(keys[key][name] == of for name, of in chosen.items()))


def of_one(played: Played) -> str:
    """Messages of one for each site and check."""
    return f"{played.messages / played.checks:.2f}" if played.checks else "–"


def shown(found: dict[Any, Played], seeds: int, checks: int) -> tuple[str, bool]:
    names = sorted({key[0] for key in found}, reverse=True)
    rows, lines = [], {}
    for name in names:
        for factor in FACTORS:
            ones = [added(found, stream=name, sites=sites, factor=factor, way="estimate") for sites in SITES]
            cells = [f"{of_one(one)} ({one.bytes / max(one.periodic_bytes, 1):.2f})" for one in ones]
            rows.append([name, f"{factor:g}", *cells])
            dots = [
                (float(sites), one.messages / one.checks) for sites, one in zip(SITES, ones, strict=True) if one.checks
            ]
            lines[f"{name}, {factor:g}"] = dots
    shorter = {name: line for name, line in lines.items() if not name.endswith("1.3")}
    picture("monitoring.svg", shorter, "sites", "messages, of one for each site and check", log_x=True, log_y=True)
    counts = [added(found, stream=names[0], sites=sites, factor=FACTORS[0], way="estimate").runs for sites in SITES]
    dealt_out = ", ".join(f"{count} with {sites} sites" for sites, count in zip(SITES, counts, strict=True))
    kinds = [
        [kind, *(of_one(one) for sites in SITES
                 if (one := added(found, kind=kind, sites=sites, factor=1.3, way="estimate")))]
        for kind in KINDS
    ]  # fmt: skip
    ways = [
        [way, *(of_one(one) for factor in FACTORS[1:3]
                if (one := added(found, sites=16, factor=factor, way=way)))]
        for way in ("balls", "zones", "zones and balancing")
    ]  # fmt: skip
    estimate, certain = added(found, way="estimate"), added(found, way="certain")
    wrong = sum(one.wrong for one in found.values())
    below, sure = estimate.sides.get("below", 0), certain.sides.get("below", 0)
    possible = certain.sides.get("possible", 0) / max(certain.asked, 1)
    text = (
        f"Self-join sizes of the keys over the last {WINDOW} of {TICKS} checks, ε = δ = {EPSILON:g} (3 × 56 counters), "
        f"{seeds} seeds, each with rows dealt out to the sites anew and one of four traffics in turn: as it came, "
        "falling to a fiftieth, half of the sites silent from the middle on, a burst of one key. In step: every "
        "message arrives before the next check. The threshold is a multiple of the median value of the run. Of the "
        f"seeds {dealt_out}.\n\n"
        f"**The centre was on the wrong side of its own estimate at {wrong} of {checks:,} checks.** The truth was at "
        f"the threshold or above at {estimate.missed:,} of the {below:,} checks at which an estimate said below "
        f"({estimate.missed / max(below, 1):.2%}), and on the other side at {estimate.crossings:,} of "
        f'{estimate.asked:,} checks; with `promise = "certain"` it was at {certain.missed} of {sure:,}, while '
        f"{possible:.0%} of the checks said possible.\n\n"
        "Messages, of one for each site and check (bytes, of those vectors, in brackets); references, requests and "
        "slacks count, signs of life (40 bytes each half lease) come on top. **Above 1 it does not pay.**\n\n"
        + table(("stream", "threshold", *(f"{sites} sites" for sites in SITES)), rows)
        + "\n\n![Messages by the number of sites](img/monitoring.svg)\n\nBy traffic, all streams, threshold 1.3:\n\n"
        + table(("traffic", *(f"{sites} sites" for sites in SITES)), kinds)
        + "\n\nBy the test, 16 sites, least row of the same vectors:\n\n"
        + table(("test", *(f"threshold {factor:g}" for factor in FACTORS[1:3])), ways)
    )
    return text, bool(wrong or certain.missed)


if __name__ == "__main__":
    main()
