"""How much narrower sums and counts of the past are with exact totals by hour than without.

    python -m benchmarks.totals [--rows 34000000] [--publish]

A generated stream of 30 days, 20 sources, heavy weights, defaults; 200 as-of times over the last 28 days. Batches go to
the builder directly, as Spark's tasks do. Exact answers are computed by brute force at 20 of the times.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from benchmarks.report import publish, table
from benchmarks.streams import DAY, START, Generated
from sketches import Events, Question, Sample
from sketches.arrays import Floats, Ints

DECAYS = ("exp:half_life=6h", "window:1d", "window:1h", "poly:alpha=1,unit=1h", "none")
HEAD = (
    "question",
    "without: median %",
    "worst %",
    "with: median %",
    "worst %",
    "missed of 20",
    "ms without",
    "ms with",
)


def sampled(stream: Generated) -> Sample:
    """The sample of all batches, and of all rows the totals."""
    names, found = [f"site-{number}" for number in range(stream.sources)], list[Sample]()
    for batch in stream.batches():
        part = Sample.partial(Events.of(batch.ids, batch.times, batch.values, batch.weights), batch.sources, names)
        found = [part if not found else found[0].merge(part)]
    return found[0]


def exact(stream: Generated, questions: list[Question], moments: Ints) -> Floats:
    """Each question at each of some times, from all rows."""
    found = np.zeros((len(questions), len(moments)))
    for batch in stream.batches():
        for at, moment in enumerate(moments.tolist()):
            there = int(np.searchsorted(batch.times, moment, side="right"))
            ages, weights = (moment - batch.times[:there]).astype(np.float64), batch.weights[:there]
            factors = {question.decay.spec: question.decay(ages) for question in questions}
            for number, question in enumerate(questions):
                factor = factors[question.decay.spec]
                found[number, at] += factor @ weights if question.aggregate == "sum" else factor.sum()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=34_000_000)
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    stream = Generated("totals", options.rows, 30, 20, heavy=1.0)
    sample = sampled(stream)
    plain = replace(sample, totals=None)
    moments = np.linspace(START + 2 * DAY, START + 30 * DAY - 1, 200).astype(np.int64)
    questions = [Question(name, decay, counting="events") for name in ("sum", "count") for decay in DECAYS]
    truths = exact(stream, questions, moments[::10])
    rows = []
    for question, truth in zip(questions, truths, strict=True):
        widths, took = [], []
        for one in (plain, sample):
            one.series(question, moments[:20])  # what is computed once for all questions
            begin = time.perf_counter()
            found = one.series(question, moments)
            took.append(f"{1000.0 * (time.perf_counter() - begin):.0f}")
            half = 50.0 * (found.upper - found.lower) / found.value
            widths += [f"{np.median(half):.2f}", f"{half.max():.2f}"]
        missed = int(np.count_nonzero((found.lower[::10] > truth) | (found.upper[::10] < truth)))
        rows.append((f"{question.aggregate}, {question.decay.spec}", *widths, missed, *took))
    assert sample.totals is not None
    more = len(sample.to_bytes()) - len(replace(plain, rows=replace(plain.rows, counts=None)).to_bytes())
    text = (
        f"{options.rows:,} events of 30 days, {sample.kept:,} of them kept; half of the interval's width in % of the "
        f"estimate, at 200 past times, all sources. Totals of {len(sample.totals.hours)} hours take {more:,} bytes.\n\n"
        + table(HEAD, rows)
    )
    if options.publish:
        publish("benchmarks.md", "Exact totals", "python -m benchmarks.totals --publish", text)
    else:
        print(text)


if __name__ == "__main__":
    main()
