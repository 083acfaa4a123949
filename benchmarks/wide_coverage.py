"""How often the intervals of answers about fields hold: random questions to stores, against exact answers.

Every ten questions have a fresh seed and a store of their own; every other one is a centre into which three sites with
some of the rows each were merged. Asked is what `wane query` asks: single answers, lists, rates, splits by a field or
by source with all others as one, thresholds of all groups and of each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from scipy.stats import binom

from benchmarks.query import STREAM, say
from benchmarks.report import table
from sketches import Question, Sample
from sketches.decay.weighed_time import weighed_time
from sketches.errors import UnanswerableError
from sketches.estimate import Group
from sketches.fields import FieldKind
from sketches.predicate import columns_with
from store import Run, SketchTables, Store, Stream, commit
from store.merging.merge_command import merge
from store.serving.split_answer import SOURCE, SplitAnswer
from store.writing.run import EPOCHS, SKETCHES
from tests.support.wide import Wide, random_question, random_where

A_SEED: Final = 10  # questions to one store
CONFIDENCE: Final = 0.95
ROUNDING: Final = 1e-9
SITES: Final = 3
_EVER: Final = 1 << 40  # one epoch
_EACH: Final = "each source"
_HOW: Final = ("single", "single", "single", "rate", "list", "by a field", "by a field", "by source", "own")


@dataclass(frozen=True)
class Trial:
    """A question that was asked, and whether the exact answer, or that of any group, lay outside; None: refused."""

    name: str
    kind: str  # of question
    how: str  # it was asked
    of: str
    terms: int
    stores: str
    missed: bool | None


class Asked:
    """One data set in a store, and the exact answers of all of it and of each source."""

    def __init__(self, wide: Wide) -> None:
        self.wide = wide
        self.names = [f"source {number}" for number in range(int(wide.sources.max()) + 1)]
        # an event of two sources is one of each: as if it had another id there
        ids = np.unique(wide.ids, return_inverse=True)[1] * len(self.names) + wide.sources
        named = {**wide.fields, _EACH: np.array(self.names, object)[wide.sources]}
        self.of_sources = replace(wide, ids=ids, fields=named)

    def store(self, folder: Path, seed: int) -> Store:
        """All rows in one store, or in three of which a centre was made."""
        if seed % 2 == 0:
            return self._built(folder / "store.duckdb", np.arange(len(self.wide.ids)), seed)
        site = self.wide.sources % SITES  # a source is of one site
        parts = [folder / f"site{number}.duckdb" for number in np.unique(site).tolist()]
        for path, number in zip(parts, np.unique(site).tolist(), strict=True):
            self._built(path, np.flatnonzero(site == number), seed)
        merge(folder / "centre.duckdb", list(map(str, parts)))
        return Store(folder / "centre.duckdb")

    def _built(self, path: Path, rows: Any, seed: int) -> Store:
        wide = self.wide.rows(rows)
        sources = wide.sources.astype(np.int32)
        sample = Sample.partial(wide.events(), sources, self.names, epsilon=0.2, detail=1, seed=seed)
        epochs = [
            (
                *(self.names[number], 0, _EVER, int(own.sum()), float(wide.weights[own].sum())),
                *(int(wide.times[own].min()), int(wide.times[own].max())),
            )
            for number in np.unique(sources).tolist()
            for own in [sources == number]
        ]
        totals = pa.table([list(column) for column in zip(*epochs, strict=True)], schema=EPOCHS)
        payload = pa.table([[""], [0], [0], ["sample"], [sample.to_bytes()]], schema=SKETCHES)
        kind = "float" if wide.values.dtype.kind == "f" else "integer"
        kinds = {name: str(one) for name, one in self.wide.kinds.items()}
        settings = {"fields": {name: name for name in kinds}, "field_kinds": kinds, "kind": kind, "weight": "w"}
        now = datetime.now(UTC)
        commit(path, Run(Stream(STREAM, _EVER, settings=settings), SketchTables(totals, payload), now, now))
        return Store(path)


def ask(name: str, wide: Wide, questions: int) -> Iterator[Trial]:
    """Random questions of all kinds."""
    asked = Asked(wide)
    for seed in range(-(-questions // A_SEED)):
        rng = np.random.default_rng([seed, len(name)])
        if seed % 10 == 0:
            say(f"{name}: {seed * A_SEED} questions asked")
        with tempfile.TemporaryDirectory(prefix="wane-wide-") as folder:
            store = asked.store(Path(folder), seed)
            for _ in range(A_SEED):
                yield _trial(name, asked, store, rng, seed)


def _trial(name: str, asked: Asked, store: Store, rng: np.random.Generator, seed: int) -> Trial:
    while True:
        how = str(rng.choice(_HOW))
        question = _question(asked.wide, rng, how)
        by = str(rng.choice([*asked.wide.fields, SOURCE])) if how == "own" else str(rng.choice(list(asked.wide.fields)))
        by = SOURCE if how == "by source" else by
        missed: bool | None = None
        try:
            missed = _missed(asked, store, question, how, by, int(rng.choice([1, 3, 10])), smallest=rng.random() < 0.2)
            if missed is None:
                continue
        except UnanswerableError as error:
            say(f"refused: {error}")
        if missed:
            say(f"missed: {name} seed {seed} {how} {question} by {by}")
        of = question.of if question.of in (None, "value", "weight") else "a field"
        terms = sum(1 for term in question.where.parts() for _ in term.leaves())
        return Trial(name, question.aggregate, how, of or "-", terms, "three" if seed % 2 else "one", missed)


def _question(wide: Wide, rng: np.random.Generator, how: str) -> Question:
    grouped = how not in ("single", "list")
    question = random_question(wide, rng, grouped=grouped)
    plain = {"of": None, "per": None, "tau": None, "phi": None, "low": None, "high": None}
    if how == "rate":
        of = str(rng.choice([*wide.numbers, "events"]))
        aggregate = "count" if of == "events" else "sum"
        changes = plain | {"aggregate": aggregate, "of": None if of == "events" else of, "per_second": True}
        question = replace(question, **changes)
    elif how == "list":
        texts = [name for name, kind in wide.kinds.items() if kind in (FieldKind.TEXT, FieldKind.INTEGER)]
        where = random_where(wide, rng, columns_with(wide.kinds), 2)
        question = Question(
            "heavy-hitters", question.decay, question.as_of, of=str(rng.choice(texts)), top=5, where=where
        )
    elif how == "own":
        aggregate = str(rng.choice(["count", "sum", "mean"]))
        of = None if aggregate == "count" else str(rng.choice(wide.numbers))
        tau = str(rng.choice(["own median", "own q0.9"]))
        question = replace(
            question, **plain | {"aggregate": aggregate, "of": of, "tau": tau, "share": type(question.where)()}
        )
    return replace(question, counting="weight") if rng.random() < 0.25 else replace(question, counting="events")


def _missed(
    asked: Asked, store: Store, question: Question, how: str, by: str, top: int, *, smallest: bool
) -> bool | None:
    """Whether anything that is said does not hold; None where there is no exact answer."""
    if how in ("single", "rate"):
        truth = asked.wide.exact(replace(question, per_second=False))
        if np.isnan(truth):
            return None
        if question.per_second:
            assert question.as_of is not None
            truth /= weighed_time(question.decay, np.array([question.as_of - int(asked.wide.times.min()) + 1.0]))[0]
        found = store.ask(STREAM, question).estimate
        return not holds(truth, found.lower, found.upper)
    if how == "list":
        return _list_missed(asked.wide, store, question)
    found_split = store.split(STREAM, question, by=by, top=top, smallest=smallest, others=True)
    return _split_missed(asked, found_split, question)


def _list_missed(wide: Wide, store: Store, question: Question) -> bool | None:
    assert question.of is not None
    counts = wide.exact_by(replace(question, aggregate="count", of=None, top=None), question.of)
    counts.pop(None, None)
    whole = sum(counts.values())
    if whole <= 0:
        return None
    shares = {group: count / whole for group, count in counts.items()}
    found = store.ask(STREAM, question).estimate
    listed = {item.value: item for item in found.items}
    wrong = any(not holds(shares.get(group, 0.0), item.lower, item.upper) for group, item in listed.items())
    rest = max((share for group, share in shares.items() if group not in listed), default=0.0)
    return wrong or (found.unlisted is not None and rest > found.unlisted * (1 + ROUNDING))


def _split_missed(asked: Asked, found: SplitAnswer, question: Question) -> bool:
    """Whether the interval of any group misses, or that of all others, or a group that was not sampled is larger than
    is said."""
    wide, by, split = asked.wide, found.by, found.split
    truths = asked.of_sources.exact_by(question, _EACH) if by == SOURCE else wide.exact_by(question, by)
    places = {group: at for at, group in enumerate(split.names)}
    unseen = [group for group in truths if group not in places]
    if unseen:
        changes = {"aggregate": "count", "of": None, "per": None, "tau": None, "phi": None, "low": None, "high": None}
        counts = wide.exact_by(replace(question, **changes), by)
        if max(counts[group] for group in unseen) > split.unseen_share * sum(counts.values()) * (1 + ROUNDING):
            return True
    known = [(truths[group], at) for group, at in places.items() if not np.isnan(truths.get(group, np.nan))]
    if any(not holds(truth, split.lower[at], split.upper[at]) for truth, at in known):
        return True
    if found.others is None:
        return False
    rest = _others(asked, question, by, {place.value for place in found.places})
    return not np.isnan(rest) and not holds(rest, found.others.lower, found.others.upper)


def _others(asked: Asked, question: Question, by: str, listed: set[Group]) -> float:
    """The exact answer over the union of all that is not listed."""
    wide = asked.wide
    if by == SOURCE:
        numbers = [number for number, name in enumerate(asked.names) if name not in listed]
        return wide.rows(np.isin(wide.sources, numbers)).exact(question)
    outside = np.ones(len(wide.first), bool)
    for group, rows in wide.rows_by(by).items():
        if group in listed:
            outside[rows] = False
    return wide.exact(question, outside)


def holds(truth: float, lower: float, upper: float) -> bool:
    slack = ROUNDING * max(abs(truth), 1e-12)
    return bool(lower - slack <= truth <= upper + slack)


def coverage(questions: int, sets: Mapping[str, tuple[str, ...]], load: Callable[[str], Wide], rows: int) -> list[str]:
    """The section of docs/accuracy.md."""
    trials: list[Trial] = []
    for name in sets:
        trials += ask(name, load(name), -(-questions // len(sets)))
    refused = sum(one.missed is None for one in trials)
    trials = [one for one in trials if one.missed is not None]
    keys: dict[str, Callable[[Trial], object]] = {
        "data": lambda one: one.name,
        "question": lambda one: one.kind,
        "asked": lambda one: one.how,
        "of": lambda one: one.of,
        "conditions": lambda one: one.terms,
        "stores": lambda one: one.stores,
        "all": lambda one: "",
    }
    head = ("questions", "missed", "%", "chance")
    return [
        f"{len(trials):,} random questions with an answer, to stores of thinned samples (ε = 0.2, detail 1) of the "
        f"first {rows:,} rows of each data set and copies of a tenth of them, at {CONFIDENCE:.0%}; one store, or "
        "three sites merged into a centre. Fields: "
        + "; ".join(f"{name}: {', '.join(fields)}" for name, fields in sets.items())
        + ". A split is missed where the interval of any group misses or that of all others as one, or a group that "
        "was not sampled is larger than is said; a list where any of its shares misses, or a value that it leaves out "
        "is larger. *Own* are splits by a field or by source above a quantile of each group. *Chance* is how likely as "
        f"many misses are, or more, where 5% may miss. {refused} more were refused with a sentence.",
        *(table((title, *head), counted(trials, key)) for title, key in keys.items()),
    ]


def counted(trials: list[Trial], key: Callable[[Trial], object]) -> list[tuple[object, ...]]:
    rows = []
    for group in sorted({key(one) for one in trials}, key=str):
        some = [bool(one.missed) for one in trials if key(one) == group]
        chance = float(binom.sf(sum(some) - 1, len(some), 1 - CONFIDENCE))
        rows.append((group, f"{len(some):,}", sum(some), f"{100 * np.mean(some):.1f}", f"{chance:.2g}"))
    return rows
