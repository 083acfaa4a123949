"""`integral` and `sample` side by side for one fixed decay: bytes, speed and error on the same events.

python -m benchmarks.integral
"""

from __future__ import annotations

import numpy as np

from benchmarks.report import best, table
from sketches import Events, Integral, Question, Sample, parse_decay
from sketches.arrays import Floats

EVENTS = 300_000
SEEDS = 30
EPSILON = 0.05
TAU = 700
WEEK = 7 * 24 * 3600


def week() -> Events:
    """Events of weight 1 with values below 1,000, over a week of seconds."""
    rng = np.random.default_rng(13)
    return Events.of(np.arange(EVENTS), np.sort(rng.integers(0, WEEK, EVENTS)), rng.integers(0, 1000, EVENTS))


def errors(events: Events, family: type[Integral] | type[Sample], spec: str, as_of: int) -> tuple[float, float]:
    """Root mean square over the seeds: of the count's relative error, and of the error of the share from τ on."""
    mass: Floats = parse_decay(spec)(as_of - events.times)
    whole = float(mass.sum())
    share = float(mass[events.values >= TAU].sum()) / whole
    found = []
    for seed in range(SEEDS):
        sketch = built(events, family, spec, seed)
        count = sketch.answer(Question("count", spec, as_of)).value
        part = sketch.answer(Question("selectivity", spec, as_of, tau=TAU)).value
        found.append((count / whole - 1.0, part - share))
    count_error, share_error = np.sqrt(np.mean(np.square(found), axis=0)).tolist()
    return count_error, share_error


def built(events: Events, family: type[Integral] | type[Sample], spec: str, seed: int = 0) -> Integral | Sample:
    if family is Integral:
        return Integral.build(events, decay=spec, epsilon=EPSILON, seed=seed)
    return Sample.build(events, epsilon=EPSILON, seed=seed)


def main() -> None:
    events = week()
    newest = int(events.times.max())
    measured = []
    for spec, hours in (("window:1h", 0), ("window:24h", 0), ("exp:half_life=1h", 0), ("exp:half_life=1h", 12)):
        for family in (Integral, Sample):
            sketch = built(events, family, spec)
            seconds = best(lambda family=family, spec=spec: built(events, family, spec), 3)  # type: ignore[misc]
            count_error, share_error = errors(events, family, spec, newest + hours * 3600)
            measured.append(
                (
                    f"`{spec}`" + (f", {hours} h later" if hours else ""),
                    f"`{family.family}`",
                    f"{sketch.kept:,}",
                    f"{sketch.nbytes:,}",
                    f"{EVENTS / seconds / 1e6:.1f}",
                    f"{count_error:.2%}",
                    f"{share_error:.4f}",
                )
            )
    header = ("decay", "family", "rows", "bytes", "million events/s", "error of the count", "error of a share of 0.3")
    print(table(header, measured))


if __name__ == "__main__":
    main()
