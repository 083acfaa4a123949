"""ECM-sketches: speed and memory, and what distributing a stream over nodes costs in accuracy and in bytes.

python -m benchmarks.ecm [--events 1000000]

Real keys (../shared/data) where they are at hand, Zipf keys elsewhere. In kind the tables 3 and 4 and the figures 4 to
6 of paper E: a point query for every key in windows of 10, 100, 1,000 ... seconds, errors relative to all arrivals.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence

import datasketches
import numpy as np
import pyarrow.parquet as pq

from benchmarks.report import best, picture, publish, table
from sketches import Ecm, Events, Question
from sketches.hashing import hash_text
from tests.support.paths import DATA

DELTA = 0.1
EPSILONS = (0.05, 0.1, 0.15, 0.2, 0.25)
NODES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
KEEPINGS = ("eh", "dw", "rw")
PAPER = {"eh": 1.486, "dw": 1.168, "rw": 0.177}  # M/s on wc'98, Table 3
FEW = 200_000  # events for randomised waves, which keep almost all

Keys = tuple[np.ndarray, np.ndarray]  # times in order, and keys as whole numbers


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--events", type=int, default=1_000_000, help="of the generated stream (default 1,000,000)")
    streams = dict(_streams(options.parse_args().events))
    text = "\n\n".join((_speed(streams), _memory(streams), _distributed(streams), _queries(streams)))
    publish("benchmarks.md", "ECM-sketches", "python -m benchmarks.ecm", text)


def _streams(rows: int) -> Iterator[tuple[str, Keys]]:
    rng = np.random.default_rng(1)
    yield "Zipf 1.2", (np.sort(rng.integers(0, 1_000_000, rows)), np.minimum(rng.zipf(1.2, rows), 1 << 40))
    for name in ("online_retail", "bikeshare14", "zeek_wrccdc"):
        path = DATA / f"{name}.parquet"
        if path.exists():
            columns = pq.read_table(path, columns=["ts", "key"])
            times = columns["ts"].to_numpy()
            order = np.argsort(times, kind="stable")
            hashes = hash_text(np.array(columns["key"].to_pylist(), object)).view(np.int64)
            yield name, (times[order] - times.min(), hashes[order])


def _events(keys: Keys, which: slice | np.ndarray = slice(None)) -> Events:
    times, values = keys[0][which], keys[1][which]
    return Events.of(np.arange(len(keys[0]))[which], times, values)


def _speed(streams: dict[str, Keys]) -> str:
    found = []
    for name, keys in streams.items():
        for keeping in KEEPINGS:
            rows = min(len(keys[0]), FEW if keeping == "rw" else len(keys[0]))
            events = _events(keys, slice(0, rows))
            Ecm.build(events.rows(0, 100), epsilon=0.1, delta=DELTA, keeping=keeping)
            own = best(
                lambda events=events, keeping=keeping: Ecm.build(events, epsilon=0.1, delta=DELTA, keeping=keeping), 3
            )
            some = keys[1][: min(rows, 200_000)].tolist()
            peer = best(lambda some=some: _fed(some), 2) * rows / len(some)
            rate = rows / own / 1e6
            found.append(
                (name, f"{rows:,}", keeping, f"{rate:.2f}", f"{rate / PAPER[keeping]:.1f}", f"{peer / own:.2f}")
            )
    header = ("stream", "arrivals", "counters", "M/s", "times E's Table 3", "times datasketches count_min from Python")
    return (
        "Building on one core, ε = δ = 0.1. Asked: exponential histograms at 3 times E's Table 3, and as fast as "
        "`count_min_sketch` (which has no window) fed from Python in the same run.\n\n" + table(header, found)
    )


def _fed(keys: Sequence[int]) -> None:
    sketch = datasketches.count_min_sketch(3, 56)
    for key in keys:
        sketch.update(key)


def _windows(keys: Keys) -> Iterator[int]:
    window, whole = 10, int(keys[0][-1]) + 1
    while window < whole:
        yield window
        window *= 10
    yield whole


def _errors(sketch: Ecm, keys: Keys, joins: bool) -> tuple[float, float, float]:
    """Mean and greatest error of a point query for every key of every window, and the mean error of self-joins."""
    times, values = keys
    points, joined = [], []
    for window in _windows(keys):
        inside = values[np.searchsorted(times, times[-1] - window, side="right") :]
        distinct, counts = np.unique(inside, return_counts=True)
        total = len(inside)
        shares = sketch.counters.frequencies(distinct, f"window:{window}s")[0]
        points.append(np.abs(shares - counts / total))
        if joins:
            exact = float((counts.astype(np.float64) ** 2).sum())
            estimate = sketch.answer(Question("self-join", f"window:{window}s")).value
            joined.append(abs(estimate - exact) / total**2)
    every = np.concatenate(points)
    return float(every.mean()), float(every.max()), float(np.mean(joined)) if joined else float("nan")


def _memory(streams: dict[str, Keys]) -> str:
    found, lines = [], {}
    for name, keys in streams.items():
        for keeping in KEEPINGS:
            rows = min(len(keys[0]), FEW if keeping == "rw" else len(keys[0]))
            part = keys[0][:rows], keys[1][:rows]
            for epsilon in EPSILONS if keeping != "rw" else EPSILONS[1::2]:
                sketch = Ecm.build(_events(part), epsilon=epsilon, delta=DELTA, keeping=keeping)
                mean, most, joined = _errors(sketch, part, keeping != "rw")
                found.append(
                    (
                        name,
                        keeping,
                        epsilon,
                        f"{sketch.nbytes / 1e3:,.0f}",
                        f"{mean:.4f}",
                        f"{most:.4f}",
                        f"{joined:.4f}",
                    )
                )
                lines.setdefault(f"{name}, {keeping}", []).append((sketch.nbytes / 1e3, mean))
    picture("ecm-memory.svg", lines, "kB on the wire", "mean error of point queries", log_x=True)
    header = ("stream", "counters", "ε", "kB", "mean error", "greatest error", "self-join error")
    return (
        "Memory against error (E's Figure 4), one node, δ = 0.1.\n\n"
        + table(header, found)
        + "\n\n![Mean error against memory](img/ecm-memory.svg)"
    )


def _distributed(streams: dict[str, Keys]) -> str:
    found, errors, sent = [], {}, {}
    for name, keys in streams.items():
        for keeping, epsilon in (("eh", 0.1), ("eh", 0.2), ("rw", 0.2)):
            rows = min(len(keys[0]), FEW)
            part = keys[0][-rows:], keys[1][-rows:]
            alone = 0.0
            for nodes in NODES if keeping == "eh" else NODES[::4]:
                owner = np.random.default_rng(7).integers(0, nodes, rows)
                tree = [
                    Ecm.build(
                        _events(part, np.flatnonzero(owner == node)), epsilon=epsilon, delta=DELTA, keeping=keeping
                    )
                    for node in range(nodes)
                ]
                network = 0
                while len(tree) > 1:
                    network += sum(sketch.nbytes for sketch in tree)
                    tree = [Ecm.union(tree[at : at + 2]) for at in range(0, len(tree), 2)]
                mean, _, joined = _errors(tree[0], part, keeping == "eh")
                alone = alone or mean
                errors.setdefault(f"{name}, {keeping} {epsilon}", []).append((nodes, mean))
                sent.setdefault(f"{name}, {keeping} {epsilon}", []).append((nodes, network / 1e6 + 1e-3))
                if nodes in (1, 16, 256):
                    found.append(
                        (
                            name,
                            keeping,
                            epsilon,
                            nodes,
                            tree[0].depth,
                            f"{mean:.4f}",
                            f"{mean / alone:.3f}",
                            f"{joined:.4f}",
                            f"{network / 1e6:.2f}",
                        )
                    )
    picture("ecm-nodes.svg", errors, "nodes", "mean error of point queries", log_x=True)
    picture("ecm-network.svg", sent, "nodes", "MB sent", log_x=True, log_y=True)
    header = ("stream", "counters", "ε", "nodes", "levels", "mean error", "to one node", "self-join error", "MB sent")
    return (
        f"Distributed over nodes at random and aggregated in a binary tree (E's Table 4 and Figures 5 and 6), the last "
        f"{FEW:,} arrivals, δ = 0.1. Randomised waves lose nothing and send much more.\n\n"
        + table(header, found)
        + "\n\n![Error against nodes](img/ecm-nodes.svg)\n\n![Bytes sent against nodes](img/ecm-network.svg)"
    )


def _queries(streams: dict[str, Keys]) -> str:
    keys = next(iter(streams.values()))
    counters = Ecm.build(_events(keys), epsilon=0.1, delta=DELTA).counters
    some = keys[1][:1000]
    counters.frequencies(some[:1], "exp:half_life=1h")
    single = best(lambda: counters.frequencies(some[:1], "exp:half_life=1h"), 7)
    many = best(lambda: counters.frequencies(some, "exp:half_life=1h"), 7)
    start = time.perf_counter()
    counters.answer(Question("self-join", "exp:half_life=1h"))
    joined = time.perf_counter() - start
    return (
        f"Asking, once loaded: one point query {single * 1e3:.2f} ms, 1,000 in one call {many * 1e3:.2f} ms, "
        f"{many / single:.1f} times as long (asked: at most 20); a self-join {joined * 1e3:.1f} ms."
    )


if __name__ == "__main__":
    main()
