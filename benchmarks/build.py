"""How fast a sample is built, against datasketches' KLL sketch on the same values in the same run, on one core.

python -m benchmarks.build [--events 5000000]
"""

from __future__ import annotations

import argparse

import datasketches
import numpy as np

from benchmarks.report import best, publish, table
from sketches import Events, Sample

START = 1_700_000_000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=5_000_000, help="rows per build (default 5,000,000)")
    rows = options.parse_args().events
    rng = np.random.default_rng(1)
    ids = np.arange(rows)
    values = rng.integers(0, 100_000, rows).astype(np.int32)
    ordered = np.sort(rng.integers(0, 3600, rows)) + START
    heavy = rng.integers(1, 1501, rows)
    streams = {
        "unit weights, in order": (ordered, None),
        "unit weights, shuffled": (rng.permutation(ordered), None),
        "unit weights, newest first": (ordered[::-1].copy(), None),
        "weights to 1,500, in order": (ordered, heavy),
        "weights to 1,500, shuffled": (rng.permutation(ordered), heavy),
    }
    measured = []
    for name, (times, weights) in streams.items():

        def ours(times: np.ndarray = times, weights: np.ndarray | None = weights) -> Sample:
            return Sample.build(Events.of(ids, times, values, weights))

        sketch = ours()
        peer = best(lambda: datasketches.kll_ints_sketch(200).update(values))
        own = best(ours)
        asked = 0.8 if weights is None else 0.1
        measured.append(
            (
                name,
                f"{rows / own / 1e6:.1f}",
                f"{rows / peer / 1e6:.1f}",
                f"{peer / own:.2f}",
                asked,
                f"{sketch.kept:,}",
            )
        )
    header = ("stream", "sample M/s", "KLL M/s", "ratio", "asked", "kept")
    publish("benchmarks.md", "Building a sample", "python -m benchmarks.build", table(header, measured))


if __name__ == "__main__":
    main()
