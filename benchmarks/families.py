"""The deterministic families: how fast they are built against datasketches' KLL, and how many ranges they keep.

python -m benchmarks.families [--events 1000000]

Real data (../shared/data) where they are at hand, generated events elsewhere; a table says which.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from typing import Any

import datasketches
import numpy as np
import pyarrow.parquet as pq

from benchmarks.report import best, publish, table
from sketches import Events, Exponential, Histogram, QDigest, Question, Retractable
from tests.support.paths import DATA

HALVING = "exp:half_life=1h"
EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2)
PAPER = {"exponential": 1.0, "histogram": 0.1, "qdigest": 0.1}  # M/s in C §6.3: exponential, sliding windows
ASKED = {"exponential": 0.3, "histogram": 0.1, "qdigest": 0.05}
BATCHES = (100_000, 1_000_000)
WINDOWS = 40


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--events", type=int, default=1_000_000, help="of generated streams (default 1,000,000)")
    rows = options.parse_args().events
    streams = dict(_streams(rows))
    text = "\n\n".join((_speed(streams), _space(streams)))
    publish("benchmarks.md", "Deterministic families", "python -m benchmarks.families", text)


def _streams(rows: int) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Times, values and weights by name."""
    rng = np.random.default_rng(1)
    times = rng.integers(0, 86_400, rows)
    yield "generated, small values", (times, rng.lognormal(6, 1, rows).astype(np.int64), np.ones(rows, np.int64))
    yield "generated, values to 2^40", (times, rng.integers(0, 1 << 40, rows), rng.integers(1, 1500, rows))
    for name in ("bikeshare14", "nginx_wikibase_minutes", "azure_vm_noise"):
        path = DATA / f"{name}.parquet"
        if path.exists():
            columns = pq.read_table(path, columns=["ts", "value", "weight"])
            yield name, tuple(columns[one].to_numpy()[:2_000_000] for one in ("ts", "value", "weight"))  # type: ignore[misc]


def _speed(streams: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]) -> str:
    found = []
    for name, (times, values, weights) in streams.items():
        for rows in BATCHES:
            if rows > len(times):
                continue
            events = Events.of(np.arange(rows), times[:rows], values[:rows], weights[:rows])
            span = int(times[:rows].max() - times[:rows].min()) + 1
            narrow = values[:rows].astype(np.int32)
            builds: dict[str, Callable[[], Any]] = {
                "exponential": lambda events=events: Exponential.build(events, decay=HALVING),
                "histogram": lambda events=events, span=span: Histogram.build(events, span=span),
                "qdigest": lambda events=events, span=span: QDigest.build(events, span=span, epsilon=0.1),
                "retractable": lambda events=events: Retractable.build(events, decay=HALVING),
            }
            for family, build in builds.items():
                build()
                peer, own = best(lambda narrow=narrow: datasketches.kll_ints_sketch(200).update(narrow)), best(build)
                found.append(
                    (
                        name,
                        f"{rows:,}",
                        family,
                        f"{rows / own / 1e6:.1f}",
                        f"{rows / peer / 1e6:.1f}",
                        f"{peer / own:.2f}",
                        ASKED.get(family, ""),
                        f"{rows / own / 1e6 / PAPER[family]:.0f}" if family in PAPER else "",
                    )
                )
    header = ("stream", "batch", "family", "M/s", "KLL M/s", "ratio", "asked", "times paper C's rate")
    return (
        "Building one sketch from a batch on one core (ε = 0.05, qdigest 0.1), against `kll_ints_sketch.update` on the "
        "same values in the same run.\n\n" + table(header, found)
    )


def _space(streams: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]) -> str:
    found = []
    for name, (times, values, weights) in streams.items():
        span = 1 << int(times.max() - times.min()).bit_length()
        begin = int(times.min()) // span * span
        if int(times.max()) >= begin + span:
            span *= 2
        events = Events.of(np.arange(len(times)), times - begin, values, weights)
        newest = int(times.max() - begin)
        for epsilon in EPSILONS:
            histogram = Histogram.build(events, epsilon=epsilon, span=span)
            digest = QDigest.build(events, epsilon=epsilon, span=span)
            exponential = Exponential.build(events, epsilon=epsilon, decay=HALVING)
            height, total = math.log2(span), int(weights.sum())
            alpha = math.ceil((1 + height) * (2 + epsilon) / epsilon)
            buckets = alpha * (math.ceil(math.log2(max(total, 2))) + 1)
            widest, outside = _checked(histogram, times - begin, weights, newest)
            found.append(
                (
                    name,
                    f"{len(times):,}",
                    epsilon,
                    f"{histogram.kept:,}",
                    f"{buckets:,}",
                    f"{histogram.nbytes / 1e3:,.1f}",
                    f"{widest:.4f}",
                    outside,
                    f"{digest.kept:,}",
                    f"{digest.nbytes / 1e3:,.1f}",
                    exponential.kept,
                    f"{3 * 64 / epsilon:,.0f}",
                )
            )
    header = (
        "stream",
        "events",
        "ε",
        "histogram ranges",
        "D's buckets",
        "kB",
        "widest / sum",
        "outside",
        "qdigest ranges",
        "kB",
        "exponential ranges",
        "C's nodes",
    )
    return (
        "Ranges kept, all of a stream in one interval. *D's buckets* are what its Theorem 2 counts for the sum, "
        f"(1 + log W)(2 + ε)/ε for each of log B + 1 levels; *widest* is the widest interval of {WINDOWS} windows of "
        "sums, as of the newest event, over the exact sum, and *outside* how many exact sums lay outside. *C's nodes* "
        "are 3·log U/ε of a q-digest over 64 bits (Theorem 3).\n\n" + table(header, found)
    )


def _checked(sketch: Histogram, times: np.ndarray, weights: np.ndarray, newest: int) -> tuple[float, int]:
    """The widest interval over windows of all lengths, relative to the exact sum, and how many sums are outside."""
    widest, outside = 0.0, 0
    for window in np.unique(np.geomspace(1, newest + 1, WINDOWS).astype(np.int64)).tolist():
        found = sketch.answer(Question("sum", f"window:{window}s", as_of=newest))
        exact = float(weights[times > newest - window].sum())
        outside += not found.lower <= exact <= found.upper
        if exact:
            widest = max(widest, (found.upper - found.lower) / exact)
    return widest, outside


if __name__ == "__main__":
    main()
