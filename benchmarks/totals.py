"""How much narrower sums, counts, means and τ-sums of the past are with exact totals than without, and what they cost.

    python -m benchmarks.totals [--rows 34000000] [--publish]

A generated stream of 30 days, 20 sources (by a Zipf law), heavy weights, defaults; 200 as-of times over the last 28
days. Batches go to the builder directly, as Spark's tasks do. Exact answers are computed by brute force at 20 of the
times. The next table gives one source, a twentieth of the stream, totals of ever longer slices.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from benchmarks.report import publish, table
from benchmarks.streams import DAY, START, Batch, Generated
from sketches import Events, Question, Sample
from sketches.arrays import Floats, Ints
from sketches.encoding.envelope import Writer
from sketches.family import Repeats
from sketches.sampling.totals.slice_totals import SliceTotals

DECAYS = ("exp:half_life=6h", "window:1d", "window:1h", "poly:alpha=1,unit=1h", "none")
TAU = 100.0
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


class Case(NamedTuple):
    """A question, and of which source; None: of all."""

    question: Question
    source: int | None = None

    @property
    def words(self) -> str:
        of = f" of the {self.question.of}" if self.question.of else ""
        tau = f", value ≥ {self.question.tau:g}" if isinstance(self.question.tau, float) else ""
        source = "" if self.source is None else ", one source of 20"
        return f"{self.question.aggregate}{of}{tau}{source}, {self.question.decay.spec}"


def cases(source: int) -> list[Case]:
    found = [Case(Question(name, decay, counting="events")) for name in ("sum", "count") for decay in DECAYS]
    fading = DECAYS[0]
    found += [
        Case(Question("sum", fading, of="value", counting="events")),
        Case(Question("mean", fading, counting="events")),
        Case(Question("mean", fading, of="value", counting="events")),
        Case(Question("correlated-sum", fading, tau=TAU, counting="events")),
        Case(Question("correlated-count", fading, tau=TAU, counting="events")),
        Case(Question("correlated-mean", fading, tau=TAU, counting="events")),
        Case(Question("correlated-sum", fading, tau=1000.0, counting="events")),
        Case(Question("sum", fading, counting="events"), source),
        Case(Question("count", fading, counting="events"), source),
        Case(Question("mean", fading, of="value", counting="events"), source),
    ]
    return found


def sampled(stream: Generated) -> Sample:
    """The sample of all batches, and of all rows the totals."""
    names, found = [f"site-{number:02}" for number in range(stream.sources)], list[Sample]()
    for batch in stream.batches():
        part = Sample.partial(Events.of(batch.ids, batch.times, batch.values, batch.weights), batch.sources, names)
        found = [part if not found else found[0].merge(part)]
    return found[0]


def exact(stream: Generated, asked: Sequence[Case], moments: Ints) -> Floats:
    """Each question at each of some times, from all rows."""
    tops, bottoms = np.zeros((len(asked), len(moments))), np.zeros((len(asked), len(moments)))
    for batch in stream.batches():
        for at, moment in enumerate(moments.tolist()):
            there = int(np.searchsorted(batch.times, moment, side="right"))
            ages = (moment - batch.times[:there]).astype(np.float64)
            factors = {case.question.decay.spec: case.question.decay(ages) for case in asked}
            for number, case in enumerate(asked):
                matching = factors[case.question.decay.spec] * _matching(batch, there, case)
                tops[number, at] += matching @ _measure(batch, there, case.question)
                bottoms[number, at] += matching.sum()
    means = np.array([case.question.aggregate.endswith("mean") for case in asked])[:, None]
    return np.where(means, tops / bottoms, tops)


def _matching(batch: Batch, there: int, case: Case) -> Floats:
    found = np.ones(there)
    if case.source is not None:
        found *= batch.sources[:there] == case.source
    if case.question.tau is not None:
        found *= batch.values[:there] >= case.question.tau
    return found


def _measure(batch: Batch, there: int, question: Question) -> Floats:
    if question.of == "value":
        return batch.values[:there].astype(np.float64)
    return np.ones(there) if question.aggregate.endswith("count") else batch.weights[:there].astype(np.float64)


def widths(
    sample: Sample, stream: Generated, asked: Sequence[Case], moments: Ints
) -> list[tuple[str | float | int, ...]]:
    """A line for each case: half-widths and times without totals and with them, and how often the truth is outside."""
    plain = replace(sample, totals=None)
    truths = exact(stream, asked, moments[::10])
    rows: list[tuple[str | float | int, ...]] = []
    for case, truth in zip(asked, truths, strict=True):
        line: list[str] = []
        took = []
        for one in (plain, sample):
            askable = one.askable_sample if case.source is None else one.of([f"site-{case.source:02}"])
            askable.series(case.question, moments[:20])  # what is computed once for all decays
            begin = time.perf_counter()
            found = askable.series(case.question, moments)
            took.append(f"{1000.0 * (time.perf_counter() - begin):.0f}")
            half = 50.0 * (found.upper - found.lower) / np.abs(found.value)
            line += [f"{np.median(half):.2f}", f"{half.max():.2f}"]
        missed = int(np.count_nonzero((found.lower[::10] > truth) | (found.upper[::10] < truth)))
        rows.append((case.words, *line, missed, *took))
    return rows


def nbytes(totals: SliceTotals) -> int:
    writer = Writer()
    totals.write(writer)
    return len(writer.to_bytes())


def by_bytes(sample: Sample, case: Case, moments: Ints) -> list[tuple[str | float | int, ...]]:
    """Half-widths of one source with ever longer slices of the totals by source, all of one length."""
    assert sample.totals is not None
    rows: list[tuple[str | float | int, ...]] = []
    by_source = sample.totals.by_source
    newest = int(by_source.starts.max()) + 1
    for level in range(8):
        hours = 1 << level
        coarse = np.full(level, -(-newest // (2 * hours)) * 2 * hours, np.int64)
        one = SliceTotals.merged([by_source, replace(SliceTotals.nothing(sample.parameters.unit), coarse=coarse)])
        found, line = replace(sample, totals=replace(sample.totals, by_source=one)), list[str]()
        for repeats in (Repeats.FORGIVEN, Repeats.NONE):
            series = found.of([f"site-{case.source:02}"], repeats).series(case.question, moments)
            half = 50.0 * (series.upper - series.lower) / series.value
            line += [f"{np.median(half):.2f}", f"{half.max():.2f}"]
        rows.append((hours, len(one), f"{nbytes(one):,}", *line))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=34_000_000)
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    stream = Generated("totals", options.rows, 30, 20, heavy=1.0)
    source = 5  # about a twentieth of the stream
    sample = sampled(stream)
    moments = np.linspace(START + 2 * DAY, START + 30 * DAY - 1, 200).astype(np.int64)
    assert sample.totals is not None
    size = {name: nbytes(getattr(sample.totals, name)) for name in ("hourly", "by_source", "by_class")}
    plain = replace(sample, totals=None, rows=replace(sample.rows, counts=None))
    text = (
        f"{options.rows:,} events of 30 days, {sample.kept:,} of them kept, {len(plain.to_bytes()):,} bytes; half of "
        f"the interval's width in % of the estimate, at 200 past times. Totals take {size['hourly']:,} bytes by hour, "
        f"{size['by_source']:,} by source ({len(sample.totals.by_source):,} slices), {size['by_class']:,} by class of "
        f"value.\n\n"
        + table(HEAD, widths(sample, stream, cases(source), moments))
        + f"\n\nOne source, a twentieth of the stream: the sum, {DECAYS[0]}, by the length of the slices of all "
        "sources' totals. Nothing repeats; unless the settings say so (`unique = true`), the interval allows for an "
        "event that came twice and was not kept. Asked: 6 and 15, as close as an eighth of the sample's bytes "
        "allows.\n\n"
        + table(
            ("hours", "slices", "bytes", "median %", "worst %", "unique: median %", "worst %"),
            by_bytes(sample, Case(Question("sum", DECAYS[0], counting="events"), source), moments),
        )
    )
    if options.publish:
        publish("benchmarks.md", "Exact totals", "python -m benchmarks.totals --publish", text)
    else:
        print(text)


if __name__ == "__main__":
    main()
