"""How often intervals miss: the same questions to sketches of the same streams under many seeds, counted.

    python -m benchmarks.coverage [--seeds 400] [--events 20000]

Every stream, decay and aggregate of the tests, thresholds τ from the 5% to the 99.9% quantile of the values; as of now
and of the past. Writes docs/accuracy.md. About 20 minutes on two cores.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks.report import publish, table
from tests.support.coverage import Tally, questions_for, tally
from tests.support.oracle import DECAYS
from tests.support.streams import STREAMS

DELTA = 0.05
EPSILON = 0.1
MATCHED = ("range-sum", "correlated-sum", "correlated-count", "correlated-mean")  # these count only what matches
NAMES = tuple(name for name in STREAMS if name not in ("empty", "single", "sorted", "reversed"))


def run(name: str, events: int, seeds: int, per_aggregate: int, delta: float) -> list[Tally]:
    stream = STREAMS[name](events, 1)
    questions = questions_for(stream, per_aggregate, seed=5, decays=DECAYS)
    return tally(stream, questions, range(seeds), epsilon=EPSILON, delta=delta)


def percent(part: int, whole: int) -> str:
    return f"{100.0 * part / whole:.2f}" if whole else ""


def grouped(tallies: list[Tally], key: Any) -> list[tuple[object, ...]]:
    """Rows of a table: misses on both sides, the worst single question, and estimates beyond ε where it was planned."""
    groups: dict[str, list[Tally]] = defaultdict(list)
    for one in tallies:
        groups[key(one)].append(one)
    rows: list[tuple[object, ...]] = []
    for name, members in sorted(groups.items()):
        whole = Tally()
        for one in members:
            whole.add(one)
        worst = max(members, key=lambda one: one.misses / one.trials)
        rows.append(
            (
                name,
                len(members),
                f"{whole.trials:,}",
                percent(whole.misses, whole.trials),
                percent(whole.above, whole.trials),
                percent(whole.below, whole.trials),
                percent(worst.misses, worst.trials),
                percent(whole.beyond_epsilon, whole.planned),
            )
        )
    return rows


def by_matches(tallies: list[Tally]) -> list[tuple[object, ...]]:
    """The same by how many sampled events matched on average."""

    def size(one: Tally) -> str:
        mean = sum(one.used) / max(len(one.used), 1)
        bounds = ((3, "a: below 3"), (10, "b: 3 to 10"), (30, "c: 10 to 30"), (100, "d: 30 to 100"))
        return next((text for bound, text in bounds if mean < bound), "e: 100 and more")

    matched = [one for one in tallies if one.question is not None and one.question.aggregate in MATCHED]
    return grouped(matched, size)


def label(one: Tally) -> str:
    assert one.question is not None
    return one.question.aggregate + (" of values" if one.question.of == "value" else "")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=400)
    options.add_argument("--events", type=int, default=20_000)
    options.add_argument("--questions", type=int, default=8, help="per aggregate and stream")
    chosen = options.parse_args()
    command = "python -m benchmarks.coverage"
    head = ("questions", "trials", "missed %", "above %", "below %", "worst question %", "beyond ε %")
    for delta in (DELTA, 0.01):
        seeds = chosen.seeds if delta == DELTA else chosen.seeds // 2
        names = NAMES if delta == DELTA else ("uniform", "bursty", "heavy-weights", "keys")
        with ProcessPoolExecutor(2) as pool:
            jobs = [pool.submit(run, name, chosen.events, seeds, chosen.questions, delta) for name in names]
            tallies = [one for job in jobs for one in job.result()]
        noise = sum(one.too_many(delta, 1e-3) for one in tallies)
        text = (
            f"{chosen.events:,} events a stream, ε = {EPSILON}, δ = {delta}, {seeds} seeds; an interval may miss "
            f"{100 * delta:.0f}%. Of {len(tallies)} questions, {noise} missed more often than that by more than chance "
            f"explains once in a thousand questions.\n\n"
        )
        parts = [
            ("stream", lambda one: one.stream),
            ("aggregate", label),
            ("decay", lambda one: one.question.decay.spec),
        ]
        for name, key in parts:
            text += table((name, *head), grouped(tallies, key)) + "\n\n"
        text += table(("sampled events that match", *head), by_matches(tallies)) + "\n"
        publish("accuracy.md", f"Estimator horvitz-thompson, δ = {delta}", command, text)


if __name__ == "__main__":
    main()
