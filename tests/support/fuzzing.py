"""The fuzz: random streams, settings, merges and questions of every family, each answer beside the exact one.

Everything follows from one seed, so that a seed, a family and the number of a case name a failure:

    python -m benchmarks.fuzz --seeds 17 --family qdigest --case 31 --verbose

`tests.support.fuzz_cases` chooses; an `Attempt` builds, asks and judges, and gives an `Outcome` for every trial; a
`Ledger` counts them.
"""

from __future__ import annotations

import inspect
import math
import warnings
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from scipy.stats import binom

from sketches import Events, Question
from sketches.errors import WaneError
from sketches.estimate import Curve, Estimate, Series
from sketches.family import Askable, Sketch
from sketches.question import DEFAULT_TOP
from sketches.registry import FAMILIES
from sketches.units import TimeUnit
from tests.support.fuzz_cases import (
    MOST,
    RANDOM,
    UNITS,
    Chooser,
    Inquiry,
    merged_way,
    pick,
    random_settings,
    random_stream,
    random_way,
)
from tests.support.stated import Answered, Facts, UnknownClauseError, lists_hold, verdicts
from tests.support.truth import Exact, Truth, either

QUESTIONS = 48
LIST_SLACK = 1e-9
SEEN_APART = "if no row came in two of the sketches that were merged"


@dataclass(frozen=True)
class Outcome:
    """One trial: of which kind, about what, with which probability it should have held, and whether it did."""

    kind: str  # answer, list, list item, curve, curve together, series, sentence, order, crash
    family: str
    aggregate: str
    when: str  # past, now, future
    probability: float  # 1: must hold always
    held: bool
    seed: int
    case: int
    copy: int = 0  # which of the sketches with seeds of their own
    words: str = field(default="", compare=False)

    @property
    def certain(self) -> bool:
        return self.probability >= 1.0


# Trials.


@dataclass
class Attempt:
    """One stream and one family: its settings, its sketches, and what is asked of them."""

    seed: int
    name: str
    copies: int | None = None  # sketches with seeds of their own, for families whose bounds may fail
    questions: int | None = None
    most: int = MOST  # rows of a stream
    merged: bool = False  # whether sketches are always made of many parts

    def __post_init__(self) -> None:
        self.family: type[Sketch] = FAMILIES[self.name]
        rng = np.random.default_rng([self.seed, 1])
        self.unit: TimeUnit = pick(rng, UNITS)
        self.stream = random_stream(rng, self.most)
        rng = np.random.default_rng([self.seed, zlib.crc32(self.name.encode())])
        self.settings = random_settings(rng, self.name, self.stream, self.unit)
        self.way = (merged_way if self.merged else random_way)(rng, self.name)
        if self.name == "integral" and self.way.name != "batch":
            self.settings["delta"] = max(self.settings["delta"], 0.05)  # several copies take long to merge
        self.now = int(self.stream.t.max()) if len(self.stream) else 0
        kept = rng.random(len(self.stream)) >= 0.4
        self.kept = self.stream.take(np.flatnonzero(kept)) if self.name == "retractable" else self.stream
        self.gone = self.stream.take(np.flatnonzero(~kept)) if self.name == "retractable" else None
        large = len(self.stream) > 10_000
        asked = self.questions or (QUESTIONS if self.name in RANDOM else 2 * QUESTIONS)
        chooser = Chooser(rng, self.family, self.stream, self.settings, self.now)
        self.inquiries = chooser.inquiries(asked // 3 if large else asked)
        default = (2 if large or self.name == "integral" else 5) if self.name in RANDOM else 1
        self.copies = default if self.copies is None else self.copies if self.name in RANDOM else 1
        self.repeats = len(self.stream.distinct()) < len(self.stream)
        once = self.family.abilities.forgives_repeats
        self.truth = Truth(self.kept, self.unit, self.now, once)
        halves = self.stream.split(2, self.seed)
        self.sides = [Truth(half, self.unit, self.now, once) for half in halves]

    def describe(self) -> str:
        shown = {name: value for name, value in self.settings.items() if name != "unit"}
        unit = f"{self.unit.numerator}/{self.unit.denominator}s"
        return (
            f"{len(self.stream)} rows ({self.stream.v.dtype}), unit {unit}, {self.name} {shown}, {self.way.name} of "
            f"{self.way.parts} {self.way.spread}{' through bytes' if self.way.through_bytes else ''}"
        )

    def outcomes(self, only: int | None = None) -> Iterator[Outcome]:
        """Every trial of every sketch."""
        for copy in range(self.copies or 1):
            built = self._built(copy)
            if built is None:
                return
            if isinstance(built, Outcome):
                yield built
                return
            for case, inquiry in enumerate(self.inquiries):
                if only is None or case == only:
                    yield from self._asked(built, inquiry, case, copy)

    def _built(self, copy: int) -> list[Askable] | Outcome | None:
        """The sketch, and for inner products the sketches of two halves of the stream."""
        settings = self.settings | {"seed": 1000 * self.seed + copy}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                sketch = self.way.sketch(self.family, self.stream, settings)
                if self.gone is not None and len(self.gone):
                    events = Events.of(self.gone.ids, self.gone.t, self.gone.v, self.gone.w)
                    sketch = sketch.delete(events)  # type: ignore[attr-defined]
                joined = "inner-product" in self.family.abilities.aggregates
                halves = [self.way.sketch(self.family, one.stream, settings) for one in self.sides] if joined else []
                return [sketch, *halves]
        except WaneError:
            return None
        except Exception as error:  # noqa: BLE001  whatever goes wrong is a finding
            return self._outcome("crash", "build", "now", 1.0, False, -1, copy, f"{type(error).__name__}: {error}")

    def _outcome(
        self, kind: str, aggregate: str, when: str, probability: float, held: bool, case: int, copy: int, words: str
    ) -> Outcome:
        return Outcome(kind, self.name, aggregate, when, probability, held, self.seed, case, copy, words)

    def when(self, as_of: int | None) -> str:
        if as_of is None or as_of == self.now:
            return "now"
        return "past" if as_of < self.now else "future"

    def _asked(self, built: list[Askable], inquiry: Inquiry, case: int, copy: int) -> Iterator[Outcome]:
        question = inquiry.question
        when = self.when(question.as_of if inquiry.form != "series" else int(min(inquiry.axis)))
        aggregate = question.aggregate + (" of values" if question.of_value else "")

        def outcome(kind: str, probability: float, held: bool, words: str = "") -> Outcome:
            asked = "" if held else f"{inquiry.words(self.now)}: {words}"
            return self._outcome(kind, aggregate, when, probability, held, case, copy, asked)

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                answer = self._answer(built, inquiry)
        except WaneError:
            return
        except Exception as error:  # noqa: BLE001
            yield outcome("crash", 1.0, False, f"{type(error).__name__}: {error}")
            return
        if self.repeats and SEEN_APART in getattr(answer, "guarantee", ""):
            return  # the answer says that it does not hold here
        if isinstance(answer, Estimate):
            yield from self._judged(question, answer, outcome)
        elif isinstance(answer, Series):
            yield from self._judged_series(question, answer, outcome)
        else:
            yield from self._judged_curve(inquiry, answer, outcome)
            yield from self._curve_together(built[0], inquiry, outcome)

    def _answer(self, built: list[Askable], inquiry: Inquiry) -> Estimate | Series | Curve:
        question = inquiry.question
        match inquiry.form:
            case "series":
                return built[0].series(question, np.array(inquiry.axis, np.int64))
            case "quantile curve":
                return built[0].quantile_curve(question, np.array(inquiry.axis))
            case "threshold curve":
                return built[0].threshold_curve(question, np.array(inquiry.axis))
        if question.aggregate == "inner-product":
            return built[1].answer(question.at(self.truth.as_of(question)), other=built[2])
        return built[0].answer(question)

    def _sides(self, question: Question) -> tuple[Truth, Truth | None]:
        return (self.sides[0], self.sides[1]) if question.aggregate == "inner-product" else (self.truth, None)

    def _judged(self, question: Question, answer: Estimate, outcome: Callable[..., Outcome]) -> Iterator[Outcome]:
        truth, other = self._sides(question)
        if answer.as_of != truth.as_of(question):
            yield outcome("order", 1.0, False, f"as of {answer.as_of}, not {truth.as_of(question)}")
        if question.aggregate == "heavy-hitters":
            if not truth.faint(question):
                yield from self._judged_list(question, answer, outcome)
            return
        exact = truth.answer(question, other)
        if exact.faint:
            return
        answered = Answered.of(answer)
        yield from self._judged_interval("answer", exact, answered, outcome)
        facts = Facts(question, answered, exact, truth, other)
        yield from self._judged_sentence(answer.guarantee, [facts], outcome)

    def _judged_interval(
        self, kind: str, exact: Exact, answered: Answered, outcome: Callable[..., Outcome]
    ) -> Iterator[Outcome]:
        lower, upper, value = answered.lower, answered.upper, answered.value
        words = f"exact {exact.least:.12g} not in [{lower:.12g}, {upper:.12g}], estimate {value:.12g}"
        room = 1e-9 * max(abs(lower), abs(upper)) if math.isfinite(lower) and math.isfinite(upper) else 1e-9
        if not math.isnan(value) and not lower - room <= value <= upper + room:
            yield outcome("order", 1.0, False, words)
        if not exact.nothing:
            yield outcome(kind, answered.confidence, exact.within(lower, upper), words)

    def _judged_list(self, question: Question, answer: Estimate, outcome: Callable[..., Outcome]) -> Iterator[Outcome]:
        truth = self.truth
        facts = Facts(question, Answered.of(answer), Exact(math.nan, math.nan), truth)
        items = answer.items
        most = question.top or (DEFAULT_TOP if question.phi is None else math.inf)
        falling = all(one.estimate >= two.estimate - 1e-12 for one, two in pairwise(items))
        if len(items) > most or len({item.value for item in items}) < len(items) or not falling:
            yield outcome("order", 1.0, False, f"{len(items)} items, not the {most} largest once each in order")
        if math.isnan(facts.largest_unlisted):
            return
        unlisted = 1.0 if answer.unlisted is None else answer.unlisted
        together = self._together(answer)
        held = lists_hold(facts)
        complete = facts.largest_unlisted <= unlisted + LIST_SLACK
        wrong = [(one, share) for one, share in facts.item_shares() if not _in(share, one.lower, one.upper)]
        words = f"largest unlisted share {facts.largest_unlisted:.6g}, stated {answer.unlisted}"
        if wrong:
            item, share = wrong[0]
            missed = f"{item.value!r} has {share:.6g}, not in [{item.lower:.6g}, {item.upper:.6g}]"
            words = f"{len(wrong)} of {len(items)} items miss: {missed}; {words}"
        yield outcome("list", answer.confidence, complete and (held or not together), words)
        if not together:
            for item, share in facts.item_shares():
                yield outcome("list item", answer.confidence, _in(share, item.lower, item.upper), words)
        yield from self._judged_sentence(answer.guarantee, [facts], outcome)

    def _together(self, answer: Estimate) -> bool:
        """Whether the intervals of a list claim to hold all at once."""
        if answer.confidence >= 1.0:
            return True
        if "by itself" in answer.guarantee or "each for itself" in answer.guarantee:
            return False
        return self.family.abilities.joint_lists or "hold all together" in answer.guarantee

    def _judged_sentence(
        self, guarantee: str, facts: Sequence[Facts], outcome: Callable[..., Outcome]
    ) -> Iterator[Outcome]:
        """All certain clauses are one trial; every other clause is one of its own."""
        try:
            found = [verdict for one in facts for verdict in verdicts(guarantee, one)]
        except UnknownClauseError as error:
            yield outcome("sentence", 1.0, False, str(error))
            return
        certain = [one for one in found if one.probability >= 1.0]
        broken = next((one for one in certain if not one.held), None)
        yield outcome("sentence", 1.0, broken is None, "" if broken is None else broken.words)
        for one in found:
            if one.probability < 1.0:
                yield outcome("sentence", one.probability, one.held, one.words)

    def _judged_series(self, question: Question, series: Series, outcome: Callable[..., Outcome]) -> Iterator[Outcome]:
        facts = []
        for moment, answered in zip(series.as_of.tolist(), Answered.points(series), strict=True):
            at = question.at(moment)
            exact = self.truth.answer(at)
            if exact.faint:
                continue
            for one in self._judged_interval("series", exact, answered, outcome):
                yield one if one.held else replace(one, words=f"{one.words} (at now{moment - self.now:+d})")
            facts.append(Facts(at, answered, exact, self.truth))
        yield from self._judged_sentence(series.guarantee, facts, outcome)

    def _along(self, inquiry: Inquiry, at: float) -> Exact:
        """The exact answer at a point of a curve; an axis of floats cannot tell whole numbers beyond 2^53 apart."""
        if inquiry.form == "quantile curve":
            return self.truth.answer(replace(inquiry.question, phi=at))
        exact = self.truth.answer(replace(inquiry.question, tau=at))
        if abs(at) >= 2.0**53 and self.stream.v.dtype.kind == "i":
            beside = [replace(inquiry.question, tau=math.nextafter(at, end)) for end in (-math.inf, math.inf)]
            return either([exact, *(self.truth.answer(one) for one in beside)])
        return exact

    def _judged_curve(self, inquiry: Inquiry, curve: Curve, outcome: Callable[..., Outcome]) -> Iterator[Outcome]:
        for place, at in enumerate(inquiry.axis):
            exact = self._along(inquiry, at)
            if exact.faint or exact.nothing:
                continue
            ends = (float(column[place]) for column in (curve.value, curve.lower, curve.upper))
            yield from self._judged_interval("curve", exact, Answered(*ends, curve.confidence), outcome)

    def _curve_together(self, askable: Askable, inquiry: Inquiry, outcome: Callable[..., Outcome]) -> Iterator[Outcome]:
        """The same curve with all its points at once, where the family offers it."""
        draw = askable.quantile_curve if inquiry.form == "quantile curve" else askable.threshold_curve
        if "together" not in inspect.signature(draw).parameters:
            return
        try:
            curve = draw(inquiry.question, np.array(inquiry.axis), together=True)  # type: ignore[call-arg]
        except WaneError:
            return
        exact = [self._along(inquiry, at) for at in inquiry.axis]
        known = [at for at, one in enumerate(exact) if not (one.faint or one.nothing)]
        if known and getattr(curve, "together", True):  # a family may offer no more than each point by itself
            missed = [at for at in known if not exact[at].within(float(curve.lower[at]), float(curve.upper[at]))]
            words = f"{len(missed)} of {len(known)} points miss"
            yield outcome("curve together", curve.confidence, not missed, words)


def _in(share: float, lower: float, upper: float) -> bool:
    return bool(lower - LIST_SLACK <= share <= upper + LIST_SLACK)


# Counting.

Cell = tuple[str, str, str, str]  # kind, family, aggregate, when


@dataclass
class Chance:
    """Trials that may miss, by sketch: those of one sketch share its randomness, so together they count as one."""

    trials: int = 0
    misses: int = 0
    allowed: float = 0.0  # misses that the stated probabilities allow
    sketches: dict[tuple[int, int], list[float]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0.0]))

    def add(self, outcome: Outcome) -> None:
        self.trials += 1
        self.misses += not outcome.held
        self.allowed += 1.0 - outcome.probability
        one = self.sketches[outcome.seed, outcome.copy]
        one[0] += 1
        one[1] += not outcome.held
        one[2] += 1.0 - outcome.probability

    def too_many(self, doubt: float = 1e-4) -> bool:
        """More sketches missed than chance explains but once in 1/doubt times.

        The share of its trials that a sketch misses lies between 0 and 1. Whatever the trials of a sketch have to do
        with each other, sums of such shares stray no more than sums of coins that are 0 or 1.
        """
        missed = sum(misses / trials for trials, misses, _ in self.sketches.values())
        allowed = sum(may / trials for trials, _, may in self.sketches.values()) / max(len(self.sketches), 1)
        return bool(missed > binom.ppf(1.0 - doubt, len(self.sketches), allowed) + 1e-9)


class Ledger:
    """Counts outcomes by cell, keeps those that must not be, and questions that miss under most seeds."""

    def __init__(self) -> None:
        self.certain: dict[Cell, list[int]] = defaultdict(lambda: [0, 0])
        self.chance: dict[Cell, Chance] = defaultdict(Chance)
        self.violations: list[Outcome] = []
        self.questions: dict[tuple[str, str, int, int], Chance] = defaultdict(Chance)  # kind, family, seed, case
        self.examples: dict[tuple[str, str, int, int], Outcome] = {}

    def add(self, outcome: Outcome) -> None:
        cell = (outcome.kind, outcome.family, outcome.aggregate, outcome.when)
        if outcome.certain:
            self.certain[cell][0] += 1
            self.certain[cell][1] += not outcome.held
            if not outcome.held:
                self.violations.append(outcome)
            return
        self.chance[cell].add(outcome)
        self.chance[outcome.kind, outcome.family, "all", outcome.when].add(outcome)
        question = (outcome.kind, outcome.family, outcome.seed, outcome.case)
        self.questions[question].add(outcome)
        if not outcome.held:
            self.examples.setdefault(question, outcome)

    def extend(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self.add(outcome)

    @property
    def certain_cases(self) -> int:
        return sum(trials for trials, _ in self.certain.values())

    @property
    def chance_cases(self) -> int:
        return sum(chance.trials for (_, _, aggregate, _), chance in self.chance.items() if aggregate != "all")

    def doubtful(self, doubt: float = 1e-4) -> list[Cell]:
        """Cells in which bounds that may fail do so too often."""
        return sorted(cell for cell, chance in self.chance.items() if chance.too_many(doubt))

    def systematic(self, doubt: float = 1e-5) -> list[tuple[Outcome, Chance]]:
        """Questions that miss under too many seeds of the sketch, each with one of its misses."""
        found = [(self.examples[at], chance) for at, chance in self.questions.items() if at in self.examples]
        return [(example, chance) for example, chance in found if chance.too_many(doubt)]
