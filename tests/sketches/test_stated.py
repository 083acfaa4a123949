"""Every sentence that a family can produce is read back, and its numbers hold for the answer beside it."""

from __future__ import annotations

import inspect
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from sketches import Events, Question, guarantees
from sketches.errors import WaneError
from sketches.estimate import Estimate, Item, Series
from sketches.events import Kind
from sketches.family import Sketch
from sketches.predicate import Predicate, Range
from sketches.registry import FAMILIES
from tests.support.stated import Answered, Facts, UnknownClauseError, Verdict, read, verdicts
from tests.support.streams import START, Stream
from tests.support.truth import Exact, Truth

HALVING = "exp:half_life=5m"
DECAYS = ("none", "window:10m", HALVING, "poly:alpha=1.5,unit=1m", "last:150")


def lulls(n: int, values: Any, weights: Any = None) -> Stream:
    """Four busy minutes with lulls of a quarter of an hour between them."""
    rng = np.random.default_rng(n)
    times = START + 900 * rng.integers(0, 4, n) + rng.integers(0, 60, n)
    return Stream.of("lulls", np.arange(n), times, values, weights)


def streams(n: int) -> list[Stream]:
    """Numbers with weights, fifteen values of equal shares, and keys."""
    rng = np.random.default_rng(5)
    keys = np.array([f"k{key}" for key in np.minimum(rng.zipf(1.3, n), 60)], dtype=object)
    weighted = lulls(n, np.minimum(rng.zipf(1.3, n), 63), rng.integers(0, 9, n))
    return [weighted, lulls(n, np.arange(n) % 15), lulls(n, keys)]


@dataclass(frozen=True)
class Setting:
    """How a family is built."""

    name: str
    settings: dict[str, Any]
    merged: bool = False
    seeds: int = 1
    rows: int = 300

    @property
    def family(self) -> type[Sketch]:
        return FAMILIES[self.name]

    def __str__(self) -> str:
        shown = [f"{value}" for key, value in self.settings.items() if key in ("keeping", "bits", "decay", "counting")]
        return " ".join([self.name, *shown, *(["merged"] if self.merged else [])])

    def sketch(self, stream: Stream, seed: int) -> Sketch:
        parts = stream.split(3, 1) if self.merged else [stream]
        made = [self.family.build(Events.of(p.ids, p.t, p.v, p.w), **self.settings, seed=seed) for p in parts]
        while len(made) > 1:
            made[:2] = [made[0].merge(made[1])]
        return made[0]


SETTINGS = (
    Setting("sample", {"epsilon": 0.3, "detail": 1}),
    Setting("sample", {"epsilon": 0.3, "delta": 0.01, "detail": 1}, merged=True),
    Setting("integral", {"epsilon": 0.3, "decay": "window:10m"}, seeds=3),
    Setting("integral", {"epsilon": 0.3, "decay": HALVING, "counting": "weight"}, merged=True, seeds=2),
    Setting("histogram", {"epsilon": 0.2}, rows=3000),
    Setting("histogram", {"epsilon": 0.2, "span": 3600}, merged=True, rows=3000),
    Setting("qdigest", {"epsilon": 0.1}, rows=3000),
    Setting("qdigest", {"epsilon": 0.2, "span": 3600}, merged=True, rows=3000),
    Setting("division", {"epsilon": 0.2, "decay": "poly:alpha=1,unit=1m", "span": 600}, merged=True, rows=3000),
    Setting("wbmh", {"epsilon": 0.2, "decay": "poly:alpha=1,unit=1m"}, rows=3000),
    Setting("wbmh", {"epsilon": 0.3, "decay": "log:unit=1m", "span": 600}, merged=True, rows=3000),
    Setting("exponential", {"epsilon": 0.1, "decay": HALVING}, rows=3000),
    Setting("exponential", {"epsilon": 0.2, "decay": HALVING, "counting": "weight"}, merged=True, rows=3000),
    Setting("retractable", {"epsilon": 0.2, "decay": HALVING}, seeds=6),
    Setting("kll", {"epsilon": 0.1}, seeds=3, rows=1000),
    Setting("kll", {"epsilon": 0.2, "delta": 0.2}, merged=True, seeds=3, rows=1000),
    Setting("ecm", {"epsilon": 0.2, "keeping": "eh", "counting": "weight"}, seeds=4, rows=1000),
    Setting("ecm", {"epsilon": 0.2, "keeping": "dw"}, merged=True, seeds=4),
    Setting("ecm", {"epsilon": 0.3, "keeping": "rw"}, seeds=4),
    Setting("ecm", {"epsilon": 0.3, "keeping": "eh", "bits": 6, "delta": 0.2}),
)


@dataclass(frozen=True)
class Grid:
    """Every kind of question about one stream to one family."""

    setting: Setting
    stream: Stream

    @cached_property
    def truth(self) -> Truth:
        once = self.setting.family.abilities.forgives_repeats
        return Truth(self.stream, now=int(self.stream.t.max()), once=once)

    def questions(self) -> Iterator[Question]:
        abilities = self.setting.family.abilities
        decays = (self.setting.settings["decay"],) if "decay" in self.setting.settings else DECAYS
        counting = self.setting.settings.get("counting")
        for at, aggregate in enumerate(abilities.aggregates):
            for turn, extra in enumerate(self._extras(aggregate)):
                decay = decays[(at + turn) % len(decays)]
                if decay.startswith("last:") and (isinstance(extra.get("tau"), str) or aggregate == "stddev"):
                    decay = HALVING  # a threshold at each time at which the newest may begin takes long; so do spreads
                kind = counting or ("events", "weight")[turn % 2]
                for as_of in (None, START + 930 if abilities.past else START + 3700):
                    yield from self._valid(aggregate, decay, as_of, kind, extra)

    def _valid(self, aggregate: str, decay: str, as_of: int | None, counting: str, extra: dict[str, Any]) -> Any:
        try:
            yield Question(aggregate, decay, as_of, counting=counting, **extra)  # type: ignore[arg-type]
        except WaneError:
            return

    def _extras(self, aggregate: str) -> list[dict[str, Any]]:
        """What an aggregate may be asked with, once with and once without a predicate."""
        text = self.stream.is_text
        value: Any = "k1" if text else 5
        plain: list[dict[str, Any]] = [{}]
        match aggregate:
            case "heavy-hitters":
                plain = [{}, {"top": 1}, {"top": 3}, {"phi": 0.05}, {"phi": 0.4}, {"phi": 0.1, "top": 2}]
            case "quantile":
                plain = [{"phi": 0.1}, {"phi": 0.9}]
            case "rank" | "frequency":
                plain = [{"value": value}, {"value": "nobody" if text else 1}]
            case "range-sum" | "range-frequency":
                plain = [{"low": 2, "high": 7}]
            case "selectivity":
                plain = [{"tau": 4}, {"tau": "median"}, {"tau": "2*q0.25"}, {"low": 2, "high": 7}, {"high": 3}]
            case "correlated-sum" | "correlated-count" | "correlated-mean":
                plain = [{"tau": 4}, {"tau": "median"}, {"tau": "2*q0.25"}, {"tau": "mean"}]
        if aggregate in ("sum", "mean", "range-sum", "correlated-sum", "correlated-mean"):
            plain = [one | {"of": of} for one in plain for of in ("weight", "value")]
        where = Predicate.of("k1") if text else Predicate.of(None, value=Range(low=3))
        return [*plain, *(one | {"where": where} for one in plain[:3])]

    def readings(self, seed: int) -> Iterator[tuple[Question, str, list[Verdict]]]:
        """What every sentence claims, beside the question and the text."""
        sketch = self.setting.sketch(self.stream, seed)
        for question in self.questions():
            try:
                if question.aggregate == "inner-product":
                    answer = sketch.answer(question, other=sketch)
                else:
                    answer = sketch.answer(question)
            except WaneError:
                continue
            yield question, answer.guarantee, self.verdicts(question, Answered.of(answer), answer.guarantee)
            if question.as_of is None and question.aggregate not in ("heavy-hitters", "inner-product", "self-join"):
                yield from self.series(sketch, question)

    def series(self, sketch: Sketch, question: Question) -> Iterator[tuple[Question, str, list[Verdict]]]:
        past = self.setting.family.abilities.past
        moments = np.array([START + 30, START + 1500, START + 3700] if past else [START + 3700])
        if question.decay.spec.startswith("last:"):
            moments = moments[1:2]  # time by time, and each takes as long as ten others
        try:
            found: Series = sketch.series(question, moments)
        except WaneError:
            return
        for moment, answered in zip(moments.tolist(), Answered.points(found), strict=True):
            at = question.at(moment)
            yield at, found.guarantee, self.verdicts(at, answered, found.guarantee)

    def verdicts(self, question: Question, answered: Answered, guarantee: str) -> list[Verdict]:
        other = self.truth if question.aggregate == "inner-product" else None
        exact = Exact(math.nan, math.nan)
        if question.aggregate != "heavy-hitters":
            exact = self.truth.answer(question, other)
        return verdicts(guarantee, Facts(question, answered, exact, self.truth, other))


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_every_sentence_is_read_and_its_numbers_hold(setting: Setting) -> None:
    """Every clause that never fails holds, and those that may fail do so no more often than they say."""
    broken: dict[str, str] = {}
    chances: dict[tuple[str, str], list[float]] = defaultdict(list)
    allowed: dict[tuple[str, str], float] = {}
    kinds = setting.family.abilities.kinds
    for stream in (one for one in streams(setting.rows) if Kind.KEY in kinds or not one.is_text):
        grid = Grid(setting, stream)
        for seed in range(setting.seeds):
            missed: dict[tuple[str, str], list[bool]] = defaultdict(list)
            for question, guarantee, found in grid.readings(seed):
                for one in found:
                    cell = (question.aggregate, one.claim.form)
                    if one.probability < 1.0:
                        missed[cell].append(not one.held)
                        allowed[cell] = max(allowed.get(cell, 0.0), 1.0 - one.probability)
                    elif not one.held:
                        name = f"{question.aggregate}, {one.claim.form}"
                        broken.setdefault(name, f"{question} says {guarantee!r}; {one.words}")
            for cell, flags in missed.items():
                chances[cell].append(float(np.mean(flags)))
    for cell, shares in chances.items():
        if sum(shares) > binom.ppf(1 - 1e-5, len(shares), allowed[cell]):
            broken[f"{cell}"] = f"{sum(shares):.1f} of {len(shares)} sketches miss, allowed {allowed[cell]:.3g} of them"
    assert broken == {}


HELPERS = ("at_most", "at_least", "clauses", "likely")  # they make parts of clauses


def test_every_form_of_the_guarantees_has_a_reader() -> None:
    """Whatever `sketches.guarantees` can say is read back with its number."""
    examples = {"float": 0.05, "str": "the decayed count", "bool": True, "int": 3}
    public = {
        name: made
        for name, made in vars(guarantees).items()
        if inspect.isfunction(made) and not name.startswith("_") and name not in HELPERS
    }
    assert len(public) >= 6
    for made in public.values():
        for flag in (True, False):
            arguments = {
                name: flag if parameter.annotation == "bool" else examples.get(parameter.annotation.split(" ")[0])
                for name, parameter in inspect.signature(made).parameters.items()
            }
            assert read(made(**arguments))
    assert read(guarantees.left_out(0.0))
    for name, text in vars(guarantees).items():
        if name.isupper() and isinstance(text, str) and not name.startswith(("_", "ROUND_")):
            assert read(text), name


def test_a_clause_that_nobody_wrote_a_reader_for_is_an_error() -> None:
    """A sentence of a new form cannot slip in unread."""
    with pytest.raises(UnknownClauseError, match="trust me"):
        read("never outside its bounds; trust me")
    with pytest.raises(UnknownClauseError, match="the moon"):
        check(guarantees.wide(0.1, "the moon"), 10.0, 9.0, 11.0)


TEN = Truth(Stream.of("ten", range(10), range(10), [1] * 5 + [2] * 3 + [3, 4]), now=9)


def check(guarantee: str, estimate: float, lower: float, upper: float, **asked: Any) -> list[bool]:
    """Whether the clauses hold for an answer about ten events: half of them of the value 1, three of the value 2."""
    question = Question(**{"aggregate": "count", **asked})
    exact = TEN.answer(question) if question.aggregate != "heavy-hitters" else Exact(math.nan, math.nan)
    return [one.held for one in verdicts(guarantee, Facts(question, Answered(estimate, lower, upper, 1.0), exact, TEN))]


def listed(guarantee: str, *items: Item, **asked: Any) -> list[bool]:
    question = Question("heavy-hitters", **asked)
    estimate = Estimate(0.5, 0.5, 0.5, 1.0, guarantee, "qdigest", 9, 1, items)
    facts = Facts(question, Answered.of(estimate), Exact(math.nan, math.nan), TEN)
    return [one.held for one in verdicts(guarantee, facts)]


def test_numbers_that_do_not_hold_are_noticed() -> None:
    """Half of a true number is found out, whatever it is of."""
    for number, held in ((0.2, True), (0.1, False)):
        assert check(guarantees.wide(number, "the decayed count"), 10, 9, 11) == [held]
        assert check(guarantees.within(number, "the decayed count"), 12, 9, 13) == [held]
        assert check(guarantees.wide(number, "the decayed count"), 0.5, 0.4, 0.6, aggregate="rank", value=1) == [held]
        asked = {"aggregate": "quantile", "phi": 0.3}
        assert check(guarantees.rank_within(number, "the decayed count"), 2, 1, 2, **asked) == [held]
        above = Predicate.of(None, value=Range(low=2))  # five of ten
        assert check(guarantees.wide(number, "the decayed count"), 5, 4.5, 5.5, where=above) == [held]
        assert check(guarantees.wide(number, "the decayed count of all events"), 5, 4, 6, where=above) == [held]
    assert check(guarantees.NEVER_OUTSIDE, 9, 9, 9.9) == [False]
    assert check(guarantees.KEPT_ALL, 9, 9, 10) == [False]
    assert check(guarantees.NO_OTHER, 10, 10, 10) == [True]


def test_lists_that_leave_out_too_much_are_noticed() -> None:
    """A list without its largest value, or with an interval beside the share, is found out."""
    one, two = Item(1, 0.5, 0.5, 0.5), Item(2, 0.3, 0.2, 0.4)
    assert listed(guarantees.none_unlisted(0.1), one, two) == [True]
    assert listed(guarantees.none_unlisted(0.1), two) == [False]
    assert listed(guarantees.none_unlisted(0.1), one, top=1) == [False]
    assert listed(guarantees.none_listed(0.3), one, two) == [True]
    assert listed(guarantees.none_listed(0.4), one, two) == [False]
    assert listed(guarantees.lists_hold(1.0, together=True), one, two) == [True]
    assert listed(guarantees.lists_hold(1.0, together=True), one, replace(two, upper=0.25)) == [False]


def test_probabilities_and_qualifiers_are_read() -> None:
    """A probability belongs to its clause, or to all before it; what a store puts before a guarantee is no clause."""
    text = guarantees.clauses(guarantees.within(0.1, "the decayed count"), guarantees.likely(0.9))
    assert [claim.probability for claim in read(text)] == [0.9]
    assert read(guarantees.lists_hold(0.95, together=True))[0].probability == 0.95
    missing = "INCOMPLETE: 2 epochs are missing (a; b at 3, c at 4); for the rest: " + guarantees.NO_OTHER
    assert [claim.form for claim in read(missing)] == ["exact"]
    assert read(guarantees.KEPT_ALL.replace("exact", "exact for the rows taken"))[0].form == "exact"
    cited = guarantees.clauses(f"{guarantees.wide(0.1, 'the decayed count')} (Busch and Tirthapura 2007, Theorem 1)")
    assert [claim.number for claim in read(cited)] == [0.1]
