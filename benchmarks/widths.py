"""How wide the intervals of `sample` are, over 1.96 times the true standard deviation of the estimate.

    python -m benchmarks.widths [--seeds 60] [--events 8000] [--publish]

1.0 is an interval as narrow as a 95% interval can be; the mark is 1.3 wherever 30 sampled events match. The standard
deviation is that of the estimates under many seeds, so what an estimator thinks of itself plays no part. *Missed* is
how often the exact answer lay outside. `--publish` writes the section of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.report import publish, table
from sketches import Question
from tests.support.coverage import build
from tests.support.oracle import Oracle
from tests.support.streams import STREAMS, Stream

DECAYS = ("none", "exp:half_life=10m", "poly:alpha=1.5,unit=1m", "window:30m")
NAMES = ("uniform", "zipf", "correlated", "heavy-weights", "floats")
EPSILON = 0.1
ENOUGH = 30  # sampled events that match
EXPLAINED = (
    "Half of the mean width of 95% intervals over 1.96 times the standard deviation of the estimates of 60 seeds, in "
    "cells of a stream (uniform, zipf, correlated, heavy-weights, floats; 8,000 events, ε = 0.1), a decay (none, exp, "
    "poly, window), and as of now or the past, wherever 30 sampled events match. *Worst* is the share missed in the "
    "worst cell, in %. The largest ratios are those of values with rare outliers, of which none may have been seen: an "
    "interval that held them only when they were seen would not hold. Before: commit 972d0b7."
)
BEFORE = {  # median and largest ratio, and misses in %, of the same command at commit 972d0b7
    "sum": ("1.08", "1.74", "4.6"),
    "count": ("1.04", "1.34", "4.4"),
    "mean of values": ("1.15", "6.80", "2.1"),
    "sum of values": ("1.13", "8.12", "2.5"),
    "selectivity": ("1.02", "1.55", "4.2"),
    "correlated sum": ("1.10", "3.26", "3.0"),
    "correlated count": ("1.05", "1.80", "3.7"),
    "correlated mean of values": ("2.52", "19.03", "0.2"),
    "self-join": ("1.45", "16.10", "1.5"),
    "τ = median: selectivity": ("32.40", "90.89", "0.0"),
    "τ = median: correlated sum": ("2.54", "3.77", "0.2"),
    "τ = median: correlated count": ("2.85", "3.94", "0.0"),
    "τ = median: mean of values": ("1.99", "14.49", "0.0"),
    "τ = q0.9: selectivity": ("22.46", "77.48", "0.0"),
    "τ = q0.9: correlated sum": ("3.98", "7.92", "0.1"),
    "τ = q0.9: correlated count": ("7.02", "9.43", "0.0"),
    "τ = q0.9: mean of values": ("5.91", "20.00", "0.0"),
    "mean": ("1.08", "1.66", "3.8"),
    "frequency": ("1.18", "1.26", "3.3"),
    "correlated mean": ("1.17", "4.02", "3.0"),
    "τ = median: correlated mean": ("6.26", "8.83", "0.0"),
    "τ = q0.9: correlated mean": ("7.02", "2263.42", "0.0"),
}


def questions(stream: Stream, decay: str) -> list[tuple[str, Question, Question]]:
    """Name, question, and a count whose rows are those that match."""
    tau = float(np.quantile(stream.v, 0.7))
    common = _common(stream)
    everything = Question("count", decay)
    above = Question("correlated-count", decay, tau=tau)
    exact = Question("count", decay, value=common)
    found = [
        ("sum", Question("sum", decay), everything),
        ("count", everything, everything),
        ("mean", Question("mean", decay), everything),
        ("mean of values", Question("mean", decay, of="value"), everything),
        ("sum of values", Question("sum", decay, of="value"), everything),
        ("selectivity", Question("selectivity", decay, tau=tau), above),
        ("frequency", Question("frequency", decay, value=common), exact),
        ("correlated sum", Question("correlated-sum", decay, tau=tau), above),
        ("correlated count", above, above),
        ("correlated mean", Question("correlated-mean", decay, tau=tau), above),
        ("correlated mean of values", Question("correlated-mean", decay, tau=tau, of="value"), above),
        ("self-join", Question("self-join", decay), everything),
    ]
    for threshold in ("median", "q0.9"):
        name = f"τ = {threshold}"
        found += [
            (f"{name}: selectivity", Question("selectivity", decay, tau=threshold), everything),
            (f"{name}: correlated sum", Question("correlated-sum", decay, tau=threshold), everything),
            (f"{name}: correlated count", Question("correlated-count", decay, tau=threshold), everything),
            (f"{name}: correlated mean", Question("correlated-mean", decay, tau=threshold), everything),
            (f"{name}: mean of values", Question("correlated-mean", decay, tau=threshold, of="value"), everything),
        ]
    return found


def _common(stream: Stream) -> Any:
    """A value of about 2% of the events, or the most common one."""
    values, counts = np.unique(stream.v, return_counts=True)
    return values[np.argmin(np.abs(counts - 0.02 * len(stream)))].item()


def measure(
    name: str, decay: str, events: int, seeds: int, past: bool, only: str = ""
) -> list[tuple[str, float, float, float, float]]:
    """For each question: the ratio of widths, the share missed, the rows that match, the mean half-width."""
    stream = STREAMS[name](events, 1)
    oracle = Oracle(stream)
    moment = int(np.quantile(stream.t, 0.6)) if past else None
    asked = [
        (label, replace(question, as_of=moment), replace(matching, as_of=moment))
        for label, question, matching in questions(stream, decay)
        if only in label
    ]
    truths = np.array([oracle.answer(question) for _, question, _ in asked])
    found = np.zeros((seeds, len(asked), 4))
    for seed in range(seeds):
        sketch = build(stream, seed, EPSILON, 0.05)
        for at, (_, question, matching) in enumerate(asked):
            one = sketch.answer(question)
            found[seed, at] = one.value, one.lower, one.upper, sketch.answer(matching).used
    value, lower, upper, matched = np.moveaxis(found, 2, 0)
    slack = 1e-9 * np.abs(truths)
    missed = ((lower > truths + slack) | (upper < truths - slack)).mean(axis=0)
    half = np.nanmean((upper - lower) / 2.0, axis=0)
    spread = np.nanstd(value, axis=0)
    ratio = half / (1.96 * np.where(spread > 0, spread, np.nan))
    return [
        (label, *numbers)
        for (label, _, _), *numbers in zip(asked, ratio, missed, matched.mean(axis=0), half, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--events", type=int, default=8_000)
    parser.add_argument("--only", default="", help="a part of the name of a question")
    parser.add_argument("--streams", nargs="*", default=NAMES)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    ratios: dict[str, list[float]] = defaultdict(list)
    misses: dict[str, list[float]] = defaultdict(list)
    for name in options.streams:
        for decay in DECAYS:
            for past in (False, True):
                for label, ratio, missed, matched, half in measure(
                    name, decay, options.events, options.seeds, past, options.only
                ):
                    if matched < ENOUGH or not np.isfinite(ratio):
                        continue
                    ratios[label].append(ratio)
                    misses[label].append(missed)
                    if options.verbose:
                        when = "past" if past else "now"
                        print(
                            f"{label:32} {name:14} {decay:24} {when:5} {ratio:7.2f} {missed:6.3f} "
                            f"{matched:7.0f} {half:.4g}"
                        )
    rows = [
        (
            label,
            len(found),
            *BEFORE[label],
            f"{np.median(found):.2f}",
            f"{max(found):.2f}",
            f"{100 * np.mean(misses[label]):.1f}",
            f"{100 * max(misses[label]):.1f}",
        )
        for label, found in ratios.items()
    ]
    head = ("question", "cells", "before: median", "largest", "missed %", "now: median", "largest", "missed %", "worst")
    text = f"{EXPLAINED}\n\n{table(head, rows)}"
    if options.publish:
        publish("benchmarks.md", "Widths of sample's intervals", "python -m benchmarks.widths --publish", text)
    else:
        print(text)


if __name__ == "__main__":
    main()
