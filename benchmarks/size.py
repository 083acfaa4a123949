"""How many events a sample keeps for n, ε and δ, and how many bytes each takes on the wire.

python -m benchmarks.size
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.report import publish, table
from sketches import Events, Sample
from sketches.sampling.sample_parameters import SampleParameters
from sketches.units import SECOND

START = 1_700_000_000


def events_kept(events: float, epsilon: float, delta: float) -> int:
    """About how many events of weight 1 a sample keeps of so many: capacity·(1 + levels/2) for each copy."""
    parameters = SampleParameters.derive(epsilon, delta, SECOND, 0)
    if events <= parameters.capacity:
        return int(events) * parameters.copies
    return round(parameters.copies * parameters.capacity * (1.0 + math.log2(events / parameters.capacity) / 2.0))


def main() -> None:
    rng = np.random.default_rng(1)
    measured = []
    for rows in (10_000, 100_000, 1_000_000, 10_000_000):
        times = rng.integers(0, 3600, rows) + START
        values = rng.integers(0, 1_000_000, rows)
        for epsilon, delta in ((0.1, 0.05), (0.05, 0.05), (0.02, 0.05), (0.05, 0.01)):
            sketch = Sample.build(Events.of(np.arange(rows), times, values), epsilon=epsilon, delta=delta)
            size = sketch.nbytes
            measured.append(
                (
                    f"{rows:,}",
                    epsilon,
                    delta,
                    sketch.parameters.copies,
                    f"{sketch.parameters.capacity:,}",
                    f"{events_kept(rows, epsilon, delta):,}",
                    f"{sketch.kept:,}",
                    f"{size:,}",
                    f"{size / sketch.kept:.2f}",
                )
            )
    header = ("events", "ε", "δ", "copies", "a level", "kept by formula", "kept", "bytes", "bytes an event")
    text = "Unit weights, values below a million, one hour at one second; asked: at most 12 bytes an event.\n\n"
    publish("benchmarks.md", "Size of a sample", "python -m benchmarks.size", text + table(header, measured))


if __name__ == "__main__":
    main()
