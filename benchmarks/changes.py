"""How often the page Changes is wrong, and which changes it finds: counted on fresh streams against exact shares.

    python -m benchmarks.changes [--seeds 300] [--minutes 30] [--first 0] [--events 8000] [--jobs 1] [--publish]

Every trial of a cell has fresh events and a fresh seed. Exact shares come from the rows alone, by what the page says;
which groups have not changed is known from the odds by which events are drawn. `--publish` writes the sections of
docs/accuracy.md and docs/benchmarks.md. About 10 minutes of a core that has nothing else to do.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shlex
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from itertools import repeat
from typing import Any, Final

import numpy as np
from scipy.stats import binom

from benchmarks.report import best, publish, table
from sketches import Events, Question, Sample
from sketches.arrays import Flags, Floats, Ints
from sketches.changes import Between, Change, Changes, Stretch, Verdict
from sketches.event_rules import Repeats
from tests.support.thinned import holm

DAY: Final = 86_400
DAYS: Final = 4
DELTA: Final = 0.1
EPSILON: Final = 0.08
DOUBT: Final = 0.001
ROUND: Final = 10  # seeds
RESERVE: Final = 0.4  # the share of group 0, which gives way to those that change
SITES: Final = 8  # of streams that are compared by a field


@dataclass(frozen=True)
class Case:
    """A cell: how its streams are made and asked."""

    name: str
    by: str = "field"  # or source
    groups: int = 50
    tail: bool = False  # a few large groups and very many small ones
    change: str = "nothing"  # or: new groups, gone groups, doubled
    share: float = 0.0  # of the group that doubles
    reports: int = 1  # sources that report each event
    together: bool = False  # what the first source has not reported all the others have
    counted: bool = False  # rows repeat, and each counts
    repeated: bool = False
    marked: int = 2  # the day
    before: bool = False  # against the day before, not the rest
    weights: str = "events"  # or: small, heavy
    mirrored: bool = False  # the marked day has the same events as each other one
    keeps_all: bool = False
    times: int = 1  # as many events as other cells have

    @property
    def inside(self) -> Stretch:
        return self.marked * DAY, (self.marked + 1) * DAY

    @property
    def outside(self) -> tuple[Stretch, ...]:
        begin, end = self.inside
        if self.before:
            return ((begin - DAY, begin),)
        return tuple(one for one in ((0, begin), (end, DAYS * DAY)) if one[0] < one[1])

    def odds(self) -> tuple[Floats, Floats]:
        """How likely each group is in the marked time, and otherwise; group 0 gives way."""
        sizes = 1.0 / np.arange(1, self.groups) ** 1.2 if self.tail else np.ones(self.groups - 1)
        inside = np.concatenate([[RESERVE], (1.0 - RESERVE) * sizes / sizes.sum()])
        outside = inside.copy()
        some = np.arange(2, self.groups, 5)
        if self.change == "new groups":
            outside[some] = 0.0
        if self.change == "gone groups":
            inside[some] = 0.0
        if self.change == "doubled":
            rest = (1.0 - RESERVE - self.share) * sizes[1:] / sizes[1:].sum()
            outside = np.concatenate([[RESERVE, self.share], rest])
            inside = outside.copy()
            inside[1] *= 2.0
        for one in (inside, outside):
            one[0] = 1.0 - one[1:].sum()
        return inside, outside

    @property
    def unchanged(self) -> Flags:
        """Which groups have the same odds on both sides. Where events are reported by several sources and some change,
        what share the others have changes too."""
        inside, outside = self.odds()
        return np.asarray(inside == outside)

    def __post_init__(self) -> None:
        assert self.change == "nothing" or self.reports == 1


@dataclass(frozen=True, eq=False)
class Told:
    """The events of a stream, and its rows: the event and the source of each."""

    times: Ints
    values: Floats
    weights: Ints
    groups: Ints  # by the field
    event: Ints
    source: Ints


def told(case: Case, events: int, seed: int) -> Told:
    rng = np.random.default_rng([seed, *case.name.encode()])
    size = case.times * events // (DAYS if case.mirrored else 1)
    times = rng.integers(0, DAY if case.mirrored else DAYS * DAY, size)
    marked = (times >= case.inside[0]) & (times < case.inside[1])
    weights = np.ones(size, np.int64)
    if case.weights == "small":
        weights = rng.geometric(0.3, size)
    if case.weights == "heavy":
        weights = np.ceil(rng.lognormal(2.0, 1.5, size)).astype(np.int64)
    values, groups = rng.gamma(2.0, 100.0, size).round(1), _drawn(case, marked, rng)
    event = np.tile(np.arange(size), case.reports)
    if case.together:
        others = np.flatnonzero(rng.random(size) < 0.1)
        first = np.delete(np.arange(size), others)
        event = np.concatenate([first, np.repeat(others, case.groups - 1)])
        source = np.concatenate([0 * first, np.tile(np.arange(1, case.groups), len(others))])
    elif case.by == "source":
        source = np.concatenate([groups, *(_drawn(case, marked, rng) for _ in range(case.reports - 1))])
    else:
        source = rng.integers(0, SITES, len(event))
    if case.repeated or case.counted:
        times_each = rng.integers(1, 4, len(event))
        event, source = np.repeat(event, times_each), np.repeat(source, times_each)
    if case.mirrored:
        times = np.concatenate([times + day * DAY for day in range(DAYS)])
        event = np.concatenate([event + day * size for day in range(DAYS)])
        values, weights, groups, source = (np.tile(one, DAYS) for one in (values, weights, groups, source))
    return Told(times, values, weights, groups, event, source)


def _drawn(case: Case, marked: Flags, rng: np.random.Generator) -> Ints:
    inside, outside = case.odds()
    found = rng.choice(case.groups, len(marked), p=outside)
    found[marked] = rng.choice(case.groups, int(marked.sum()), p=inside)
    return found


def names_of(case: Case) -> list[str]:
    return [f"g{number:04}" for number in range(case.groups if case.by == "source" else SITES)]


def sampled(case: Case, stream: Told, seed: int, **settings: Any) -> Sample:
    texts = np.array([f"g{number:04}" for number in range(case.groups)], object)
    named = {"group": texts[stream.groups[stream.event]]} if case.by == "field" else {}
    ids = (seed * 1_000_003 + np.arange(len(stream.times)))[stream.event]
    columns = (stream.times[stream.event], stream.values[stream.event], stream.weights[stream.event])
    how = {"epsilon": EPSILON, "delta": DELTA, "detail": 10**6 if case.keeps_all else 1} | settings
    sites = stream.source.astype(np.int32)
    return Sample.partial(Events.of(ids, *columns, named), sites, names_of(case), seed=seed, **how)


def asked(case: Case, sample: Sample) -> Changes:
    question = Question("count", as_of=DAYS * DAY, counting="events" if case.weights == "events" else "weight")
    repeats = Repeats.COUNTED if case.counted else Repeats.FORGIVEN
    columns = ("value",) if case.by == "source" else ("group", "value")
    sources = sample.by_source(names_of(case), repeats) if case.by == "source" else None
    return sample.of(None, repeats).changes(question, columns, case.inside, case.outside, sources)


class Exact:
    """The exact shares on both sides. A source's share is of all that sources have reported, so that an event which
    two report counts for both."""

    def __init__(self, case: Case, stream: Told) -> None:
        event = source = np.arange(len(stream.times))  # each has at least one row
        if case.counted:
            event, source = stream.event, stream.source
        elif case.by == "source":
            event, source = np.divmod(np.unique(stream.event * case.groups + stream.source), case.groups)
        groups = source if case.by == "source" else stream.groups[event]
        valued = stream.event if case.counted else np.arange(len(stream.times))
        self.shares, self.sides = [], []
        for stretches in ((case.inside,), case.outside):
            there = np.zeros(len(stream.times), bool)
            for begin, end in stretches:
                there |= (stream.times >= begin) & (stream.times < end)
            amount = np.where(there, stream.weights, 0)
            masses = np.bincount(groups, amount[event], case.groups)
            self.shares.append(masses / masses.sum())
            self.sides.append((stream.values[valued], amount[valued]))

    def of(self, one: Change) -> tuple[float, float]:
        if isinstance(one.name, Between):
            low, high = one.name
            found = [(amount[(v >= low) & (v < high)].sum() / amount.sum()) for v, amount in self.sides]
        else:
            found = [side[int(str(one.name)[1:])] for side in self.shares]
        return float(found[0]), float(found[1])


@dataclass
class Count:
    """Of the trials of a cell: how many went wrong in which way, and how many found what had changed."""

    trials: int = 0
    missed: int = 0  # any limit of a share, of how far shares lie apart, or of groups that nothing was seen of
    called: int = 0  # any group changed that has not
    found: int = 0
    kept: float = 0.0
    inside: float = 0.0

    def __add__(self, other: Count) -> Count:
        return Count(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


def misses(exact: Exact, case: Case, sample: Sample, found: Changes) -> bool:
    slack = 1e-12
    for one in found.ranked:
        truths = exact.of(one)
        for truth, (_, lower, upper) in zip(truths, (one.inside, one.outside), strict=True):
            if not lower - slack <= truth <= upper + slack:
                return True
        if one.apart > abs(truths[0] - truths[1]) + slack:
            return True
    if case.by == "source":
        return False
    kept = np.array([int(str(text)[1:]) for text in set(sample.rows.fields["group"].to_list())], np.int64)
    unseen = next(one.unseen for one in found.columns if one.column == "group")
    return max(float(np.delete(side, kept).max(initial=0.0)) for side in exact.shares) > unseen + slack


def is_false(case: Case, one: Change) -> bool:
    """Whether a group that has not changed is called changed. Where both sides have the same events, it is already
    false to say that they differ."""
    same = isinstance(one.name, Between) or bool(case.unchanged[int(str(one.name)[1:])])
    return same and (one.verdict is Verdict.CHANGED or (case.mirrored and one.verdict is not Verdict.UNCLEAR))


def count(case: Case, seeds: Iterable[int], events: int) -> Count:
    whole = Count()
    for seed in seeds:
        stream = told(case, events, seed)
        sample = sampled(case, stream, seed)
        found = asked(case, sample)
        assert found.exact == case.keeps_all
        whole.trials += 1
        whole.missed += misses(Exact(case, stream), case, sample, found)
        whole.called += any(is_false(case, one) for one in found.ranked)
        grown = [one for one in found.ranked if one.name == "g0001"]
        whole.found += any(one.verdict is Verdict.CHANGED for one in grown)
        whole.kept += found.inside.used + found.outside.used
        whole.inside += found.inside.used
    return whole


def cases() -> list[Case]:
    by_field = [
        Case("5 values, the newest day", groups=5, marked=3),
        Case("50 values, the oldest day", tail=True, marked=0),
        Case("500 values, the oldest day", groups=500, tail=True, marked=0),
        Case("500 values, the newest day", groups=500, tail=True, marked=3),
        Case("500 values of equal size", groups=500),
        Case("against the day before", before=True, tail=True),
        Case("a fifth of the values only inside", change="new groups"),
        Case("a fifth of the values only outside", change="gone groups"),
        Case("each event by 3 sources", reports=3),
        Case("repeated rows, each counts", counted=True, reports=2),
        Case("weights", weights="small", tail=True),
        Case("heavy weights", weights="heavy", tail=True),
        Case("equal events on both sides", mirrored=True, tail=True),
        Case("equal events, 500 values", mirrored=True, tail=True, groups=500),
        Case("all kept, 500 values", keeps_all=True, tail=True, groups=500),
        Case("all kept, heavy weights", keeps_all=True, tail=True, weights="heavy"),
    ]
    by_source = [
        Case("5 sources, the oldest day", groups=5, marked=0),
        Case("50 sources, the newest day", tail=True, marked=3),
        Case("500 sources, the oldest day", groups=500, tail=True, marked=0),
        Case("a fifth of the sources only inside", change="new groups"),
        Case("8 sources, each event by 3", groups=8, reports=3),
        Case("7 of 8 sources report together", groups=8, together=True),
        Case("all kept, 7 of 8 report together", groups=8, together=True, keeps_all=True),
        Case("sources, repeated rows, forgiven", repeated=True, reports=2),
        Case("sources, repeated rows, each counts", counted=True, reports=2),
        Case("sources, heavy weights", weights="heavy", tail=True),
        Case("sources, equal events on both sides", mirrored=True, tail=True),
    ]
    return by_field + [replace(case, by="source") for case in by_source]


def powers() -> list[Case]:
    plain = Case("", change="doubled", groups=50)
    return [
        *(replace(plain, name=f"{share:.0%}, sampled", share=share) for share in (0.01, 0.05, 0.2)),
        *(replace(plain, name=f"{share:.0%}, all kept", share=share, keeps_all=True) for share in (0.01, 0.05)),
        replace(plain, name="1%, all kept, 5 times the events", share=0.01, keeps_all=True, times=5),
    ]


def chance(wrong: int, trials: int) -> float:
    """How likely as many go wrong, or more, where δ may."""
    return float(binom.sf(wrong - 1, trials, DELTA))


def percent(part: float, whole: float) -> str:
    return f"{100.0 * part / whole:.1f}"


def told_of(counts: dict[Case, Count], power: dict[Case, Count], events: int) -> list[str]:
    tests = {
        (case.name, way): chance(getattr(one, way), one.trials)
        for case, one in (counts | power).items()
        for way in ("missed", "called")
    }
    wrong = holm(tests, DOUBT)
    every = [*counts.values(), *power.values()]
    trials, allowed = sum(one.trials for one in every), f"{100 * DELTA:.0f}%"
    verdict = (
        f"{events:,} events over {DAYS} days a trial, ε = {EPSILON}, δ = {DELTA}, detail 1. *Missed*: any interval of "
        "any group on either side, or how far two shares lie apart at least, or the largest share of a group that "
        "was not sampled, does not hold the exact one. *Called*: any group is called changed whose odds are the same "
        "on both sides; where both sides have the same events, it is already wrong to say that any differs. In "
        f"{trials:,} trials {percent(sum(one.missed for one in every), trials)}% missed and "
        f"{percent(sum(one.called for one in every), trials)}% called, where {allowed} are allowed of each. Of "
        f"{len(tests)} counts of {min(one.trials for one in every):,} trials or more, {len(wrong)} are too large "
        f"(one-sided binomial test, p < {DOUBT} after Holm)."
        + "".join(f" Too large: {name}, {way}." for name, way in wrong)
    )
    rows = [
        (
            case.name,
            one.trials,
            percent(one.kept / one.trials, case.times * events),
            percent(one.missed, one.trials),
            percent(one.called, one.trials),
            f"{min(chance(one.missed, one.trials), chance(one.called, one.trials)):.2g}",
        )
        for case, one in counts.items()
    ]
    found = (
        "How often a group is found whose share has doubled, of 50 groups by a field; the largest group gives way and "
        "the others stay as they were. *Used* is how many sampled events tell of the marked day."
    )
    lines = [
        (
            case.name,
            one.trials,
            f"{one.inside / one.trials:,.0f}",
            percent(one.found, one.trials),
            percent(one.missed, one.trials),
            percent(one.called, one.trials),
        )
        for case, one in power.items()
    ]
    head = ("cell", "trials", "used, % of events", "missed %", "called %", "chance")
    powered = ("share that doubles", "trials", "used", "found %", "missed %", "called %")
    return [verdict, table(head, rows), found, table(powered, lines)]


def latency(sources: int, events: int) -> str:
    """Milliseconds of a comparison that is asked for the first time, by the number of sampled events."""
    case = Case("latency", by="source", groups=sources, tail=True)
    stream, lines = told(case, events, 1), []
    for epsilon in (0.05, 0.02, 0.01):
        sample = sampled(case, stream, 1, epsilon=epsilon)
        asked(case, sample)
        askable, split = sample.of(None), sample.by_source(names_of(case))
        question = Question("count", as_of=DAYS * DAY)
        found = askable.changes(question, ("value",), case.inside, case.outside, split)

        def again(sample: Sample = sample) -> None:
            asked(case, sample)

        lines.append((f"{epsilon}", f"{found.inside.used + found.outside.used:,}", f"{1000 * best(again):.0f}"))
    text = (
        f"The shares of {sources} sources and of classes of values, a day against the three others, from a sample in "
        f"memory of {events:,} events; least of 5 turns, in ms. Reading the store and drawing the page come on top."
    )
    return textwrap.fill(text, 120) + "\n\n" + table(("ε", "sampled events", "ms"), lines)


def counted(which: Sequence[Case], options: argparse.Namespace) -> dict[Case, Count]:
    """The counts of all cells, in rounds of some seeds, until all are done or time is up."""
    found = {case: Count() for case in which}
    begin, last = time.monotonic(), options.first + options.seeds
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for first in range(options.first, last, ROUND):
            seeds = range(first, min(first + ROUND, last))
            for case, one in zip(which, pool.map(count, which, repeat(seeds), repeat(options.events)), strict=True):
                found[case] += one
            print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)
            for case, one in found.items():
                print(f"  {case.name}: {one}", file=sys.stderr, flush=True)
            if time.monotonic() - begin > 60 * options.minutes:
                break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=300, help="trials of each cell")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--events", type=int, default=8_000, help="of each trial")
    parser.add_argument("--minutes", type=float, default=30.0, help="after which no further seeds are begun")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--publish", action="store_true", help="write the sections of the documentation")
    options = parser.parse_args()
    counts, number = counted([*cases(), *powers()], options), len(cases())
    items = list(counts.items())
    parts = told_of(dict(items[:number]), dict(items[number:]), options.events)
    text = "\n\n".join(part if part.startswith("|") else textwrap.fill(part, 120) for part in parts)
    timed = latency(229, 1_000_000)
    if options.publish:
        command = shlex.join(["python", "-m", "benchmarks.changes", *sys.argv[1:]])
        publish("accuracy.md", "What changed between two stretches of time", command, text)
        publish("benchmarks.md", "What changed: times", command, timed)
    else:
        print(text, timed, sep="\n\n")


if __name__ == "__main__":
    main()
