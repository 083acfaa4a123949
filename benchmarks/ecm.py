"""ECM-sketches: speed and memory, and what distributing a stream over nodes costs in accuracy and in bytes.

python -m benchmarks.ecm [--events 1000000]
python -m benchmarks.ecm --better [--seeds 40]

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
from sketches.countmin.askable_counters import AskableCounters
from sketches.countmin.counter_reading import CounterReading
from sketches.encoding.value_codes import codes_of
from sketches.events import Kind
from sketches.hashing import hash_text
from tests.support.paths import DATA

DELTA = 0.1
EPSILONS = (0.05, 0.1, 0.15, 0.2, 0.25)
NODES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
KEEPINGS = ("eh", "dw", "rw")
PAPER = {"eh": 1.486, "dw": 1.168, "rw": 0.177}  # M/s on wc'98, Table 3
FEW = 200_000  # events for randomised waves, which keep almost all

Keys = tuple[np.ndarray, np.ndarray]  # times in order, and keys as whole numbers
Pairs = dict[str, list[tuple[float, float]]]  # figures before and after
Missed = dict[str, list[int]]  # how many intervals missed, of how many


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--events", type=int, default=1_000_000, help="of the generated stream (default 1,000,000)")
    options.add_argument("--better", action="store_true", help="only estimates before and after, over seeds")
    options.add_argument("--seeds", type=int, default=40, help="of these (default 40)")
    given = options.parse_args()
    if given.better:
        command = f"python -m benchmarks.ecm --better --seeds {given.seeds}"
        publish("benchmarks.md", "ECM-sketches: better estimates", command, _better(given.seeds))
        return
    streams = dict(_streams(given.events))
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
                            f"{mean:.4f}",
                            f"{mean / alone:.3f}",
                            f"{joined:.4f}",
                            f"{network / 1e6:.2f}",
                        )
                    )
    picture("ecm-nodes.svg", errors, "nodes", "mean error of point queries", log_x=True)
    picture("ecm-network.svg", sent, "nodes", "MB sent", log_x=True, log_y=True)
    header = ("stream", "counters", "ε", "nodes", "mean error", "to one node", "self-join error", "MB sent")
    return (
        f"Distributed over nodes at random and merged in a binary tree (E's Table 4 and Figures 5 and 6), the last "
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


def _better(seeds: int) -> str:
    """Estimates and intervals that are read otherwise out of the same counters, before and after."""
    errors: dict[str, list[tuple[float, float]]] = {"count": [], "self-join": []}
    widths: dict[str, list[tuple[float, float]]] = {"frequency": [], "list": []}
    missed = {name: [0, 0] for name in ("count", "self-join", "frequency", "list")}
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 14])
        times, values = np.sort(rng.integers(0, 100_000, 100_000)), np.minimum(rng.zipf(1.2, 100_000), 1 << 40)
        events = Events.of(np.arange(len(times)), times, values)
        counters = Ecm.build(events, epsilon=0.1, delta=DELTA, seed=seed).counters
        for window in (300, 3_000, 30_000, 100_000):
            inside = values[np.searchsorted(times, times[-1] - window, side="right") :]
            _numbers(counters, f"window:{window}s", inside, errors, missed)
            _shares(counters, f"window:{window}s", inside, widths, missed)
    lines = []
    for name, kind in (("count", "window totals"), ("self-join", "self-joins")):
        for word, measure in (("root mean square error", lambda e: np.sqrt(np.mean(e**2))), ("mean error", np.mean)):
            lines.append((f"{kind}, {word}", *(f"{100 * measure(column):.2f}%" for column in np.array(errors[name]).T)))
    for name, kind in (("frequency", "the 20 largest frequencies"), ("list", "the 10 items of a list")):
        lines.append(
            (f"{kind}, median width", *(f"{width:.4f}" for width in np.median(np.array(widths[name]), axis=0)))
        )
    counted = ", ".join(f"{name} {failed} of {asked:,}" for name, (failed, asked) in missed.items())
    return (
        f"100,000 arrivals of Zipf 1.2 keys, ε = δ = 0.1, four windows, {seeds} seeds. The counters are the same, but "
        "read otherwise. Totals are the mean over the rows instead of one counter. Self-joins are the median over the "
        "rows without what collides in the mean, instead of the least row. What collides with a value is read off the "
        "rows instead of bounded by Markov's inequality; and the intervals of a list hold together, where each was by "
        "itself.\n\n" + table(("", "before", "after"), lines) + "\n\n"
        f"Intervals that miss (δ of them may, none of the counts; a list counts as one): {counted}."
    )


def _numbers(counters: AskableCounters, window: str, inside: np.ndarray, errors: Pairs, missed: Missed) -> None:
    """The total and the self-join: relative errors of the estimates before and after."""
    rows, width = counters.parameters.rows, counters.parameters.width
    now = np.array([counters.extremes.newest])
    counts = np.unique(inside, return_counts=True)[1].astype(np.float64)
    held = counters.contents_of(Question("count", window), now, np.arange(rows * width + 1))[0][0]
    before = {"count": held[-1], "self-join": (held[:-1].reshape(rows, width) ** 2).sum(axis=1).min()}
    for name, exact in (("count", counts.sum()), ("self-join", (counts**2).sum())):
        answer = counters.answer(Question(name, window))
        errors[name].append((before[name] / exact - 1.0, answer.value / exact - 1.0))
        missed[name][0] += not answer.lower <= exact <= answer.upper
        missed[name][1] += 1


def _shares(counters: AskableCounters, window: str, inside: np.ndarray, widths: Pairs, missed: Missed) -> None:
    """The largest frequencies and a list: widths of the intervals before and after."""
    distinct, counts = np.unique(inside, return_counts=True)
    shares = dict(zip(distinct.tolist(), (counts / len(inside)).tolist(), strict=True))
    largest = distinct[np.argsort(-counts, kind="stable")[:20]]
    markov = CounterReading(
        counters, Question("frequency", window, value=0), counters.extremes.newest or 0, every=False
    )

    def before(values: np.ndarray) -> np.ndarray:
        _, lower, upper = counters.shares_of(markov.masses(codes_of(values, Kind.INTEGER)), markov.total)
        return upper - lower

    _, lower, upper = counters.frequencies(largest, window)
    widths["frequency"] += zip(before(largest).tolist(), (upper - lower).tolist(), strict=True)
    exact = np.array([shares[value] for value in largest.tolist()])
    missed["frequency"][0] += int(np.count_nonzero((exact < lower - 1e-9) | (exact > upper + 1e-9)))
    missed["frequency"][1] += len(largest)
    found = counters.answer(Question("heavy-hitters", window))
    listed = {int(item.value): (item.lower, item.upper) for item in found.items}
    new = [high - low for low, high in listed.values()]
    widths["list"] += zip(before(np.array(list(listed))).tolist(), new, strict=True)
    wrong = any(not low - 1e-9 <= shares.get(value, 0.0) <= high + 1e-9 for value, (low, high) in listed.items())
    others = max((share for value, share in shares.items() if value not in listed), default=0.0)
    missed["list"][0] += wrong or found.unlisted is None or others > found.unlisted + 1e-9
    missed["list"][1] += 1


if __name__ == "__main__":
    main()
