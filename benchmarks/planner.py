"""Whether the planner picks the family with the narrowest interval: random questions to a store with all families.

    python -m benchmarks.planner [--questions 500] [--seed 3] [--widths]

Five streams: few events, many events, many sources, text keys, and epochs that were merged by many runs. Each question
is put to every family by name and to the planner. Counted is how often the pick is within 1.5 times of the narrowest
interval, by the rule of today and by the rule before, and whether the picked intervals hold the exact answer. Widths
are compared as the planner does: of sums over the answer, of shares as they are, of quantiles in ranks, of lists the
widest of the listed intervals or the excess that an unlisted value may have.

`--widths` prints, for each family and aggregate, the median of measured over expected widths: the constants at the top
of the modules `expected_widths` are these, measured with 1.0 there. Writes a section of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import inspect
import math
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import publish, table
from sketches import Estimate, Events, Question
from sketches.decay.functions import LastEvents
from sketches.errors import UnanswerableError
from sketches.events import Kind
from sketches.predicate import Predicate, Range
from sketches.promise import Built, Promise
from sketches.question import NEEDS_ORDER
from sketches.registry import FAMILIES
from store import EpochSketches, Run, SketchTables, Store, Stream, commit
from store.serving.epoch_holdings import holdings_of
from store.writing.run import InputFile
from tests.support.oracle import Oracle, aggregates_for, random_question
from tests.support.streams import Stream as Rows

EPOCH = 3600
START = 1_700_000_000 // EPOCH * EPOCH
SLOW = "poly:alpha=1.5,unit=1m"  # which `wbmh` and `division` are built for
FADING = "exp:half_life=30m"  # which `exponential` and `retractable` are built for
RECENT = "window:50m"  # which `integral` is built for
DECAYS = (
    *(
        "none",
        "window:10m",
        RECENT,
        RECENT,
        "window:3h",
        "exp:half_life=10m",
        FADING,
        FADING,
        FADING,
        "exp:half_life=2h",
    ),
    *(SLOW, "chordal:40m", "superexp:beta=2,scale=20m", "log:unit=1m", "last:2000", "last:20000"),
)
OF_VALUES = 0.15  # of the sums and means
RESTRICTED = 0.2  # of the questions are about some of the events only
WITHIN = 1.5
POINT = 1e-9  # an interval this wide, over the answer, is a point but for rounding


@dataclass(frozen=True)
class Kept:
    """One stream: how many events a source and an epoch has, and how it is written."""

    name: str
    sources: int
    epochs: int
    events: int
    runs: int = 1  # that bring an epoch
    keys: bool = False
    weighted: bool = False


STREAMS = (
    Kept("few", 3, 8, 300),
    Kept("busy", 2, 3, 30_000, weighted=True),
    Kept("many", 30, 4, 1_200),
    Kept("keys", 3, 4, 9_000, keys=True),
    Kept("hourly", 1, 3, 20_000, runs=12),
)
OWN: Mapping[str, Mapping[str, Any]] = {
    "qdigest": {"epsilon": 0.1},
    "ecm": {"epsilon": 0.05, "bits": 10},
    "exponential": {"decay": FADING},
    "integral": {"decay": RECENT},
    "retractable": {"decay": FADING},
    "wbmh": {"epsilon": 0.1, "decay": SLOW},
    "division": {"epsilon": 0.1, "decay": SLOW},
}


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def rows_of(kept: Kept, seed: int) -> dict[str, Rows]:
    """The events of each source: steady, with a wave, values of which some are common, weights with a long tail."""
    rng = np.random.default_rng([seed, len(kept.name), kept.events])
    found = {}
    for source in range(kept.sources):
        size = kept.events * kept.epochs
        share = rng.uniform(0.3, 1.7) if kept.sources > 1 else 1.0
        size = int(size * share)
        clock = np.sort(rng.random(size))
        clock = clock + 0.02 * np.sin(2.0 * math.pi * 3.0 * clock)
        times = START + (np.clip(clock, 0.0, 1.0 - 1e-9) * kept.epochs * EPOCH).astype(np.int64)
        if kept.keys:
            values: Any = np.array([f"/page/{number}" for number in np.minimum(rng.zipf(1.3, size), 5_000)], object)
        else:
            common = np.minimum(rng.zipf(1.5, size), 1_023)
            values = np.where(rng.random(size) < 0.4, common, np.minimum(rng.gamma(2.0, 120.0, size), 1_023))
            values = values.astype(np.int64)
        weights = np.maximum(rng.lognormal(1.0, 1.0, size), 1.0).astype(np.int64) if kept.weighted else None
        ids = np.arange(size) + (source << 32)
        found[f"s{source:02d}"] = Rows.of(kept.name, ids, times, values, weights)
    return found


def families_of(kept: Kept) -> list[str]:
    """All but those that do not take text, where values are text."""
    kind = Kind.KEY if kept.keys else Kind.INTEGER
    return [name for name, family in FAMILIES.items() if kind in family.abilities.kinds]


def settings_of(kept: Kept) -> dict[str, Any]:
    own = {name: dict(OWN.get(name, {})) for name in families_of(kept)}
    if kept.keys:
        own["ecm"].pop("bits")
    shared = {"epsilon": 0.05, "delta": 0.05, "unique": True, "counting": "events", "families": families_of(kept)}
    return shared | {"weight": "w" if kept.weighted else "1"} | own


def sketched(kept: Kept, source: str, start: int, rows: Rows, seed: int) -> EpochSketches:
    events = Events.of(rows.ids, rows.t, rows.v, rows.w if kept.weighted else None)
    settings = settings_of(kept)
    sketches = []
    for name in families_of(kept):
        family = FAMILIES[name]
        given = {"epsilon": 0.05, "seed": seed} | settings[name]
        given |= {"span": EPOCH} if "span" in inspect.signature(family.build).parameters else {}
        sketches.append(family.partial(events, np.zeros(len(events), np.int32), [source], **given))
    ends = int(rows.t.min()), int(rows.t.max())
    return EpochSketches(source, start, EPOCH, len(rows), float(rows.w.sum()), *ends, sketches)


def build(path: Path, kept: Kept, seed: int) -> dict[str, Rows]:
    """Commit a stream as runs do: each brings a slice of time, and its file says which."""
    by_source, now = rows_of(kept, seed), datetime.now(UTC)
    slices = kept.epochs * kept.runs if kept.runs > 1 else 1
    length = kept.epochs * EPOCH // slices
    for at in range(slices):
        first = START + at * length
        parts: list[EpochSketches] = []
        for source, rows in by_source.items():
            here = rows.take((rows.t >= first) & (rows.t < first + length))
            epochs = here.t // EPOCH * EPOCH
            parts += [
                sketched(kept, source, start, here.take(epochs == start), seed) for start in np.unique(epochs).tolist()
            ]
        ends = min(part.oldest for part in parts), max(part.newest for part in parts)
        file = InputFile(f"{kept.name}/{at}", 1, f"{kept.name}{at}", sum(part.events for part in parts), 1, *ends)
        stream = Stream(kept.name, EPOCH, settings=settings_of(kept))
        commit(path, Run(stream, SketchTables.of(parts), now, now, files=[file]))
    return by_source


@dataclass(frozen=True)
class Asked:
    kept: Kept
    question: Question
    sources: tuple[str, ...]
    other: str | None


class Draw:
    """Random questions to the streams, with the exact answers."""

    def __init__(self, streams: Mapping[str, dict[str, Rows]], seed: int) -> None:
        self.streams = streams
        self.rng = np.random.default_rng([seed, 7])
        self.oracles: dict[tuple[str, tuple[str, ...]], Oracle] = {}

    def oracle(self, stream: str, sources: Sequence[str]) -> Oracle:
        key = stream, tuple(sources)
        if key not in self.oracles:
            parts = [self.streams[stream][name] for name in sources or self.streams[stream]]
            columns = (np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "t", "v", "w"))
            self.oracles[key] = Oracle(Rows(stream, *columns))
        return self.oracles[key]

    def question(self) -> Asked:
        rng = self.rng
        kept = STREAMS[int(rng.integers(len(STREAMS)))]
        names = list(self.streams[kept.name])
        chosen: tuple[str, ...] = ()
        if rng.random() < 0.4 and len(names) > 1:
            chosen = tuple(names[: int(rng.integers(1, 3))])
        rows = self.oracle(kept.name, chosen).events
        pool = aggregates_for(rows)
        aggregate = pool[int(rng.integers(len(pool)))]
        other = None
        if aggregate == "inner-product":
            if len(names) < 2:
                return self.question()
            chosen, other = (names[0],), names[1]
        of = "value" if not kept.keys and rng.random() < OF_VALUES else "weight"
        asked = random_question(rng, rows, aggregate, DECAYS, of=of)
        if rng.random() < RESTRICTED and not kept.keys and aggregate not in ("heavy-hitters", "self-join"):
            asked = replace(asked, where=self._where())
        newest = max(int(part.t.max()) for part in self.streams[kept.name].values())
        return Asked(kept, asked if asked.as_of is not None else asked.at(newest), chosen, other)

    def _where(self) -> Predicate:
        low = int(self.rng.integers(1, 400))
        limits = Range(low) if self.rng.random() < 0.5 else Range(low, low + int(self.rng.integers(50, 500)))
        return Predicate.of(None, value=limits)


@dataclass(frozen=True)
class Trial:
    asked: Asked
    widths: dict[str, float]  # measured, by family
    expected: dict[str, float]
    after: str
    before: str
    missed: bool  # the picked interval
    likely: bool  # it may miss now and then

    def ratio(self, family: str) -> float:
        """How many times as wide as the narrowest."""
        narrowest = min(self.widths.values())
        return 1.0 if self.widths[family] <= narrowest + POINT else self.widths[family] / max(narrowest, POINT)

    @cached_property
    def tightest(self) -> str:
        return min(self.widths, key=lambda name: (self.widths[name], name))


def trial(store: Store, draw: Draw, asked: Asked) -> Trial | None:
    """The question put to every family and to the planner; None where there is no answer to compare."""
    stream, question = asked.kept.name, asked.question
    oracle = draw.oracle(stream, asked.sources)
    answers: dict[str, Estimate] = {}
    expected = promises(store, asked)
    for name in expected:  # others answer only when asked by name
        try:
            answer = store.ask(stream, question, sources=asked.sources, family=name, other=asked.other)
        except UnanswerableError:
            continue
        answers[name] = answer.estimate
    if len(answers) < 2 or all(math.isnan(one.value) for one in answers.values()):
        return None
    exact = (
        oracle.shares(question)
        if question.aggregate == "heavy-hitters"
        else oracle.answer(question, draw.oracle(stream, (asked.other,)) if asked.other else None)
    )
    if not exact or (isinstance(exact, float) and math.isnan(exact)):
        return None
    widths = {name: width_of(question, one, exact, oracle) for name, one in answers.items()}
    if question.aggregate == "heavy-hitters" and all(one.unlisted is None for one in answers.values()):
        widths = {
            name: max((each.upper - each.lower for each in one.items), default=1.0) for name, one in answers.items()
        }
    after = store.ask(stream, question, sources=asked.sources, other=asked.other).provenance.family
    before = old_pick(store, asked, set(answers))
    chosen = answers[after]
    return Trial(asked, widths, expected, after, before, missed(question, chosen, exact), chosen.confidence < 1.0)


def promises(store: Store, asked: Asked) -> dict[str, float]:
    """What each family that the planner considers says of itself."""
    held = store.catalogue().streams[asked.kept.name]
    sources = asked.sources or tuple(held.sources)
    holdings = holdings_of(held, sources), holdings_of(held, [asked.other]) if asked.other else None
    newest = held.newest(sources)
    past = newest is not None and asked.question.as_of is not None and asked.question.as_of < newest
    found = {}
    for name, family in ((name, FAMILIES[name]) for name in families_of(asked.kept)):
        stream = holdings_of(held, held.sources), held.beginnings.get(name, b"")
        built = Built(held.described[name], held.described, EPOCH, held.weighted, *holdings, *stream)
        promise: Promise | None = family.promise(asked.question, built, past=past)
        if promise is not None:
            found[name] = promise.width
    return found


def width_of(question: Question, answer: Estimate, exact: Any, oracle: Oracle) -> float:
    """The width of an answer, in the measure of the planner."""
    match question.aggregate:
        case "heavy-hitters":
            widest = max((one.upper - one.lower for one in answer.items), default=0.0)
            least = min((one.lower for one in answer.items), default=0.0) if question.phi is None else question.phi
            unlisted = 1.0 if answer.unlisted is None else answer.unlisted
            return max(widest, unlisted - least)
        case "quantile" | "median":
            mass = oracle.decayed(question)
            between = (oracle.events.v > answer.lower) & (oracle.events.v <= answer.upper)
            return float(mass[between].sum() / mass.sum())
        case "selectivity" | "rank" | "frequency" | "range-frequency":
            return answer.upper - answer.lower
    return (answer.upper - answer.lower) / abs(exact)


def missed(question: Question, answer: Estimate, exact: Any) -> bool:
    if question.aggregate == "heavy-hitters":
        items = {one.value: one for one in answer.items}
        outside = any(not (one.lower - POINT <= exact.get(key, 0.0) <= one.upper + POINT) for key, one in items.items())
        most = max((share for key, share in exact.items() if key not in items), default=0.0)
        return outside or (answer.unlisted is not None and most > answer.unlisted + POINT)
    slack = POINT * abs(exact)
    return not answer.lower - slack <= exact <= answer.upper + slack


# The rule before: what a family promised by its settings alone, whatever is stored.


def old_pick(store: Store, asked: Asked, names: set[str]) -> str:
    held = store.catalogue().streams[asked.kept.name]
    newest = held.newest(asked.sources or held.sources)
    past = newest is not None and asked.question.as_of is not None and asked.question.as_of < newest
    found = {}
    for name in names:
        built = Built(held.described[name], held.described, EPOCH, held.weighted)
        found[name] = old_width(name, asked.question, built, past)
    certain = {"histogram", "qdigest", "exponential"}
    return min(found, key=lambda name: (found[name], name not in certain, name))


def old_width(name: str, question: Question, built: Built, past: bool) -> float:
    """What each family's `_promise` said before this benchmark was written; later families are never picked."""
    if name in ("wbmh", "division", "kll"):
        return math.inf
    aggregate, where, epsilon = question.aggregate, question.where, built.epsilon
    age = question.decay.half_age
    blur = 1.0 + (built.epoch_seconds / age if age > 0.0 else math.inf) if past else 1.0
    last = isinstance(question.decay, LastEvents)
    sums = ("sum", "count", "range-sum", "correlated-sum", "correlated-count")
    plain = aggregate in ("sum", "count") and not where
    limits = where.range_of("value")
    two = question.two_ended or (math.isfinite(limits.low) and math.isfinite(limits.high))
    match name:
        case "sample":
            return 2.0 * epsilon
        case "integral":
            return math.nextafter(2.0 * epsilon, 1.0)
        case "histogram":
            return (epsilon * (2.0 if aggregate == "mean" else 1.0) + (3.0 * epsilon if last else 0.0)) * blur
        case "qdigest":
            factor = 0.5 if plain else 1.0
            if question.threshold is not None or aggregate == "correlated-mean":
                factor = 2.0
            elif two:
                factor = 1.5
            factor *= 2.0 if where and aggregate not in sums else 1.0
            return epsilon * (factor + (1.5 if last else 0.0)) * blur
        case "exponential":
            if plain:
                return 0.0
            two = two or question.threshold is not None
            return epsilon * (2.0 if two else 1.0) * (2.0 if where and aggregate not in sums else 1.0)
        case "retractable":
            return 0.0 if aggregate in ("sum", "count") else epsilon
    ranged = aggregate in NEEDS_ORDER or bool(where)
    width = 2.0 * epsilon * blur * (2.0 if last else 1.0)
    return width * (float(built.own.get("bits", 0)) if ranged else 1.0)


def report(trials: Sequence[Trial]) -> str:
    lines = []
    by_aggregate: dict[str, list[Trial]] = defaultdict(list)
    for one in trials:
        by_aggregate[one.asked.question.aggregate].append(one)
    for name, some in [("all", list(trials)), *sorted(by_aggregate.items())]:
        row: list[object] = [name, len(some)]
        for rule in ("before", "after"):
            ratios = np.array([one.ratio(getattr(one, rule)) for one in some])
            row += [f"{100.0 * np.mean(ratios <= WITHIN):.0f}%", _times(float(np.quantile(ratios, 0.95)))]
        row.append(
            ", ".join(f"{family} {count}" for family, count in Counter(one.after for one in some).most_common(3))
        )
        lines.append(row)
    likely = [one for one in trials if one.likely]
    sure = [one for one in trials if not one.likely]
    header = (
        "aggregate",
        "questions",
        "before: within 1.5",
        "95% within",
        "now: within 1.5",
        "95% within",
        "picked now",
    )
    events = [one.sources * one.epochs * one.events for one in STREAMS]
    return (
        f"{len(trials)} random questions to a store with all {len(FAMILIES)} families. Its {len(STREAMS)} streams "
        f"({', '.join(one.name for one in STREAMS)}) have {min(events):,} to {max(events):,} events. Each question was "
        "put to every family. *Within 1.5* is how often the family that the planner picks has an interval at most 1.5 "
        "times as wide as the narrowest of all families; *95% within* is how many times as wide it is at most in 95 of "
        "100 questions, or *not exact* where the narrowest is exact and the pick is not. *Before* is the rule that "
        "compared each family's worst case by its settings alone. The constants of today's rule were measured on other "
        "seeds of the same streams.\n\n"
        f"{table(header, lines)}\n\n"
        f"The exact answer was outside the picked interval in {sum(one.missed for one in likely)} of {len(likely)} "
        f"answers that state a probability of 0.95, and in {sum(one.missed for one in sure)} of {len(sure)} that state "
        "certainty."
    )


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 100.0 else "over 100" if ratio < 1e6 else "not exact"


def widths_text(trials: Sequence[Trial]) -> str:
    """Measured over expected widths, by family, aggregate and time: what the constants are taken from."""
    found: dict[tuple[str, ...], list[tuple[float, float]]] = defaultdict(list)
    for one in trials:
        question = one.asked.question
        tau = "τ" if question.threshold is not None else "where" if question.where else ""
        for family, measured in one.widths.items():
            found[family, question.aggregate, tau].append((measured, one.expected[family]))
    lines = []
    for key, pairs in sorted(found.items()):
        both = [(one, two) for one, two in pairs if one > POINT and two > POINT]
        ratios = [one / two for one, two in both]
        quartiles = "  ".join(f"{share:.2f}" for share in np.quantile(ratios, [0.25, 0.5, 0.75])) if ratios else "-"
        exact = sum(one <= POINT < two for one, two in pairs), sum(two <= POINT < one for one, two in pairs)
        lines.append((*key, len(pairs), quartiles, *exact))
    header = ("family", "aggregate", "", "n", "measured/expected: quartiles", "exact unforeseen", "not exact after all")
    return table(header, lines)


def worst_text(trials: Sequence[Trial], most: int = 25) -> str:
    """The picks that were furthest from the narrowest."""
    lines = []
    for one in sorted(trials, key=lambda one: -one.ratio(one.after))[:most]:
        question = one.asked.question
        pairs = ", ".join(f"{name} {one.widths[name]:.3g}/{one.expected[name]:.3g}" for name in one.widths)
        where = f" where {question.where.words()}" if question.where else ""
        lines.append(
            f"{one.ratio(one.after):9.3g} {one.asked.kept.name:7s} {question.aggregate}{where} tau={question.tau} "
            f"{question.decay.spec} {len(one.asked.sources)} sources: picked {one.after}; measured/expected {pairs}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--seed", type=int, default=3, help="constants were measured on seeds 1 and 2")
    parser.add_argument("--widths", action="store_true", help="print measured over expected widths; publish nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wane.duckdb"
        streams = {}
        for kept in STREAMS:
            start = time.perf_counter()
            streams[kept.name] = build(path, kept, options.seed)
            say(f"built {kept.name} in {time.perf_counter() - start:.1f} s")
        store, draw = Store(path), Draw(streams, options.seed)
        trials: list[Trial] = []
        while len(trials) < options.questions:
            one = trial(store, draw, draw.question())
            if one is not None:
                trials.append(one)
                if len(trials) % 100 == 0:
                    say(f"{len(trials)} questions")
    if options.widths:
        print(widths_text(trials))
        print(worst_text(trials))
        print(report(trials))
        return
    publish("benchmarks.md", "Which family the planner picks", "python -m benchmarks.planner", report(trials))


if __name__ == "__main__":
    main()
