"""Reads the sentence of a guarantee back: every clause, its number, and whether the number holds.

`read` splits a text into clauses and matches each against the forms below: those of `sketches.guarantees` and the
constant notes. An unknown clause raises `UnknownClauseError`: whoever writes a new form adds its reader here.
`verdicts` checks the clauses of an answer against the exact answer, the exact decayed masses and the exact shares of
all values.

What the words mean: "the decayed count" and "the decayed weight" are of the events that the question is about (its
predicate applied), "the whole decayed …" and "… of all events" are of all events before the predicate. Of shares and
ranks the unit is a share, so that "0.05 of the decayed count" is 0.05.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sketches.estimate import Estimate, Item, Series
from sketches.question import Question
from tests.support.truth import SHARES, Exact, Truth

_NUMBER = r"([0-9.]+(?:e[+-]?[0-9]+)?|inf)"
_WHOLE = r"([^,]+)"
_SLACK = 1e-9


class UnknownClauseError(AssertionError):
    """A clause that no reader is written for."""


@dataclass(frozen=True)
class Claim:
    """One clause of a guarantee: its form, its number, what the number is of, and with which probability it holds."""

    text: str
    form: str
    number: float = math.nan
    whole: str = ""
    probability: float | None = None  # None: as the answer's confidence


@dataclass(frozen=True)
class Verdict:
    """Whether a clause held for one answer."""

    claim: Claim
    held: bool
    probability: float
    words: str = ""


@dataclass(frozen=True)
class Answered:
    """One answer, or one point of a series."""

    value: float
    lower: float
    upper: float
    confidence: float
    items: tuple[Item, ...] = ()
    unlisted: float | None = None

    @classmethod
    def of(cls, estimate: Estimate) -> Answered:
        return cls(
            estimate.value, estimate.lower, estimate.upper, estimate.confidence, estimate.items, estimate.unlisted
        )

    @classmethod
    def points(cls, series: Series) -> list[Answered]:
        columns = (series.value.tolist(), series.lower.tolist(), series.upper.tolist())
        return [cls(*each, series.confidence) for each in zip(*columns, strict=True)]


_Check = Callable[[Claim, "Facts"], bool | None]  # None: nothing can be said here


@dataclass(frozen=True)
class Facts:
    """An answer beside what is true."""

    question: Question
    answered: Answered
    exact: Exact
    truth: Truth = field(repr=False)
    other: Truth | None = field(default=None, repr=False)

    @property
    def counted(self) -> str:
        return "weight" if self.question.by_weight else "count"

    @property
    def rounding(self) -> float:
        """What rounding may do to an answer, in decayed mass: of shares a part of the whole."""
        ranked = self.question.aggregate in (*SHARES, "quantile", "median")
        return _SLACK * self.unit if ranked else self.exact.slack()

    @property
    def unit(self) -> float:
        """What an answer of 1 is in decayed mass: of shares the whole that they are of."""
        if self.question.aggregate not in (*SHARES, "quantile", "median"):
            return 1.0
        masses = self.truth.masses(self.question)
        return masses.weight if self.question.by_weight else masses.count

    def whole(self, words: str) -> float:
        """The exact number that a clause's number is a part of."""
        if words in ("the answer", "the mean"):
            return max(abs(self.exact.least), abs(self.exact.greatest)) * self.unit
        if words in ("1", "all that counts"):
            return self.unit if words == "1" else self._masses(self.counted, all_events=True)
        if match := re.fullmatch(r"the (?:product of the|squared) (whole )?decayed (count|weight|sum)s?", words):
            kind = self._kind(match[2])
            mine = self._masses(kind, all_events=bool(match[1]))
            theirs = Facts(self.question, self.answered, self.exact, self.other) if self.other else self
            return mine * theirs._masses(kind, all_events=bool(match[1]))
        if match := re.fullmatch(r"the (whole )?decayed (count|weight|sum)( of all events)?", words):
            return self._masses(self._kind(match[2]), all_events=bool(match[1] or match[3]))
        raise UnknownClauseError(f"a number is said to be of {words!r}")

    def _kind(self, word: str) -> str:
        if word != "sum":
            return word
        return "weight" if "weight" in self.question.masses else "count"

    def _masses(self, kind: str, *, all_events: bool) -> float:
        masses = self.truth.masses(self.question)
        return float(getattr(masses, f"all_{kind}" if all_events else kind))

    @property
    def largest_unlisted(self) -> float:
        """The largest share among the values that a list leaves out; NaN where nothing counts."""
        shares = self.truth.shares(self.question).copy()
        if not len(shares) or math.isnan(shares[0]):
            return math.nan
        places = self.truth.place_of
        shares[[places[item.value] for item in self.answered.items if item.value in places]] = 0.0
        return float(shares.max(initial=0.0))

    def item_shares(self) -> list[tuple[Item, float]]:
        """The items of a list with their exact shares."""
        shares, places = self.truth.shares(self.question), self.truth.place_of
        items = self.answered.items
        return [(item, float(shares[places[item.value]]) if item.value in places else 0.0) for item in items]


def lists_hold(facts: Facts) -> bool:
    """Whether the interval of every item of a list holds its exact share."""
    shares = facts.item_shares()
    return not any(share < item.lower - _SLACK or share > item.upper + _SLACK for item, share in shares)  # NaN: nothing


# What a clause claims. Each returns whether it held, or None where it does not speak of this answer.


def _holds(claim: Claim, facts: Facts) -> bool | None:
    """The interval holds the exact answer; of a list, every interval."""
    if facts.answered.items:
        return lists_hold(facts)
    if facts.question.aggregate == "heavy-hitters" or facts.exact.nothing:
        return None
    return facts.exact.within(facts.answered.lower, facts.answered.upper)


def _is_exact(claim: Claim, facts: Facts) -> bool | None:
    """The estimate is the exact answer."""
    answered = facts.answered
    if answered.items or facts.question.aggregate == "heavy-hitters":
        return all(abs(item.estimate - share) <= _SLACK for item, share in facts.item_shares())
    if facts.exact.nothing:  # "the bounds leave no other answer" speaks of an answer, if there is one
        return None if "no other answer" in claim.text else math.isnan(answered.value)
    return facts.exact.within(answered.value, answered.value)


def _wide(claim: Claim, facts: Facts) -> bool | None:
    """upper - lower is at most so much of a whole."""
    answered = facts.answered
    whole = facts.whole(claim.whole)
    intervals = [(item.lower, item.upper) for item in answered.items] or [(answered.lower, answered.upper)]
    if facts.exact.nothing or (facts.question.aggregate == "heavy-hitters" and not answered.items):
        return None
    room = claim.number * whole * (1 + _SLACK) + facts.rounding
    return all((upper - lower) * facts.unit <= room for lower, upper in intervals)


def _off(claim: Claim, facts: Facts) -> bool | None:
    """The estimate is at most so much of a whole from the exact answer."""
    answered, question = facts.answered, facts.question
    if question.aggregate in ("quantile", "median"):
        return _rank_off(claim, facts)
    room = claim.number * facts.whole(claim.whole) * (1 + _SLACK) + facts.rounding
    if answered.items:
        return all(abs(item.estimate - share) * facts.unit <= room for item, share in facts.item_shares())
    if facts.exact.nothing or question.aggregate == "heavy-hitters" or math.isnan(answered.value):
        return None
    return facts.exact.distance(answered.value) * facts.unit <= room


def _rank_off(claim: Claim, facts: Facts) -> bool | None:
    """The rank of the estimate is at most so much of a whole from φ."""
    question, value = facts.question, facts.answered.value
    if facts.exact.nothing or math.isnan(value):
        return None
    assert question.phi is not None
    distance = facts.truth.rank_distance(question, value, question.phi)
    return distance * facts.unit <= claim.number * facts.whole(claim.whole) * (1 + _SLACK) + facts.rounding


def _none_unlisted(claim: Claim, facts: Facts) -> bool | None:
    share = facts.largest_unlisted
    return None if math.isnan(share) else share <= claim.number + _SLACK


def _nothing_unlisted(claim: Claim, facts: Facts) -> bool | None:
    return _none_unlisted(replace(claim, number=0.0), facts)


def _none_listed(claim: Claim, facts: Facts) -> bool | None:
    return all(share >= claim.number - _SLACK for _, share in facts.item_shares())


def _together(claim: Claim, facts: Facts) -> bool | None:
    return lists_hold(facts)


def _each_off(claim: Claim, facts: Facts) -> bool | None:
    """Of a mean: its sum and its count are each at most so much from the exact ones, of themselves or of the wholes."""
    question, value = facts.question, facts.answered.value
    if facts.exact.nothing or math.isnan(value):
        return None
    over = question.aggregate.removesuffix("mean")
    counted = replace(
        question, aggregate=f"{over}count", of=None, counting=question.counting if question.of_value else None
    )
    top = facts.truth.answer(replace(question, aggregate=f"{over}sum")).least
    bottom = facts.truth.answer(counted).least
    masses = facts.truth.masses(question)
    wholes = (masses.all_weight, masses.all_count) if claim.whole.startswith("the whole") else (top, bottom)
    top_error, bottom_error = (claim.number * abs(whole) for whole in wholes)
    most = (top + top_error) / (bottom - bottom_error) if bottom > bottom_error else math.inf
    least = (top - top_error) / (bottom + bottom_error)
    return least - facts.exact.slack() <= value <= most + facts.exact.slack()


def _made_of(claim: Claim, facts: Facts) -> bool | None:
    """Both parts of an error together are at least as large as it is."""
    parts = re.findall(_NUMBER, claim.text)
    return _off(replace(claim, number=sum(map(float, parts[:2])), whole="the whole decayed count"), facts)


def _note(claim: Claim, facts: Facts) -> bool | None:
    return None


_FORMS: Sequence[tuple[str, str, _Check]] = (
    # sketches/guarantees.py
    ("never outside", r"never outside its bounds", _holds),
    ("inside", r"inside its bounds", _holds),
    ("exact", r"exact(?: for the rows taken)?: every event that counts here was kept", _is_exact),
    ("exact", r"exact(?: for the rows taken)?: the bounds leave no other answer", _is_exact),
    ("wide", rf"the interval is at most {_NUMBER} of {_WHOLE} wide", _wide),
    ("within", rf"the estimate is within {_NUMBER} of {_WHOLE}", _off),
    ("rank within", rf"rank within {_NUMBER} of the one asked for, of {_WHOLE}", _rank_off),
    (
        "none unlisted",
        rf"(?:no unlisted value|No value that is not listed) has a share above {_NUMBER}",
        _none_unlisted,
    ),
    ("none left out", r"No value that is not listed has any share", _nothing_unlisted),
    ("none listed", rf"no listed value has a share below {_NUMBER}", _none_listed),
    ("together", r"the intervals of the list hold all together", _together),
    ("each by itself", r"each interval of the list holds by itself", _note),  # counted item by item
    ("note", r"rows count as often as they came", _note),
    ("note", r"what was taken back may have come elsewhere", _note),
    ("note", r"old epochs have faded, and only as much is known of them", _note),
    ("note", r"interval from the sample itself", _note),
    ("note", r"of the events of that time 1 in [0-9,]+ is kept", _note),
    ("note", r"no error was planned for(?:, as)? .+", _note),
    ("note", r"wider because the counters were aggregated [0-9]+ times", _note),
    # sample: the error that its size was planned for
    ("planned", rf"planned for a relative error of at most {_NUMBER}", _off),
    ("planned", rf"planned for a rank within {_NUMBER} of the one asked for", _rank_off),
    ("planned", rf"planned for an additive error of at most {_NUMBER}(?: of (the whole decayed \w+))?", _off),
    ("planned each", rf"sum and count each planned for a relative error of at most {_NUMBER}", _each_off),
    (
        "planned each",
        rf"sum and count each planned for an additive error of at most {_NUMBER} of (the whole decayed \w+)",
        _each_off,
    ),
    ("note", r"under [a-z-]+ decay no small sketch can bound the relative error when values are many", _note),
    # integral
    ("note", r"every event that counts 1/[0-9]+ or more was kept, lighter ones by chance", _note),
    ("note", r"none is left", _note),
    ("note", r"of floored weights(?:: each event counts up to 1 more than it adds)?", _note),
    ("note", r"those that count less than 1 add nothing", _note),
    # kll
    (
        "made of",
        rf"of that {_NUMBER} by the ranks of the sketches and {_NUMBER} by how the decay varies within an epoch",
        _made_of,
    ),
    # ecm
    ("note", r"where the newest events begin is known but for an entry of the log of all arrivals", _note),
    ("note", r"values that were heavy at that time may be missing, whatever their share", _note),
    ("note", r"if no row came in two of the sketches that were merged", _note),
)
_READERS = tuple((form, re.compile(pattern), check) for form, pattern, check in _FORMS)
_CITED = re.compile(r" \((?:Busch|Cormode|Papapetrou|docs/)[^()]*\)")
_LIKELY = re.compile(r"(.*?),? with probability ([0-9.]+)")
_INCOMPLETE = re.compile(r"^INCOMPLETE: .*? missing \(.*\); for the rest: ", re.DOTALL)


def read(guarantee: str) -> list[Claim]:
    """The clauses of a guarantee; `UnknownClauseError` where one of them, or all of it, cannot be read."""
    text = _CITED.sub("", _INCOMPLETE.sub("", guarantee))
    found: list[Claim] = []
    for clause in text.split("; "):
        if match := re.fullmatch(r"with probability ([0-9.]+)", clause):
            found = [claim if claim.probability else replace(claim, probability=float(match[1])) for claim in found]
        else:
            found.append(_read(clause))
    return found


def _read(part: str) -> Claim:
    text, probability = part, None
    if match := _LIKELY.fullmatch(part):
        text, probability = match[1], float(match[2])
    for form, pattern, _ in _READERS:
        if match := pattern.fullmatch(text):
            numbers = [group for group in match.groups() if group is not None]
            number = float(numbers[0]) if numbers and re.fullmatch(_NUMBER, numbers[0]) else math.nan
            whole = numbers[1] if len(numbers) > 1 else ""
            default = "the answer" if "relative error" in text else "1"  # where a clause does not say of what
            return Claim(part, form, number, whole or default, probability)
    raise UnknownClauseError(f"no reader for the clause {part!r}")


def _check_of(claim: Claim) -> _Check:
    match = _LIKELY.fullmatch(claim.text)
    text = match[1] if match else claim.text
    return next(check for form, pattern, check in _READERS if pattern.fullmatch(text))


def verdicts(guarantee: str, facts: Facts) -> list[Verdict]:
    """Which clauses of a guarantee held for an answer; those that say nothing of it are left out."""
    found = []
    for claim in read(guarantee):
        held = _check_of(claim)(claim, facts)
        if held is None:
            continue
        certain = claim.form in ("exact", "never outside")
        probability = claim.probability if claim.probability is not None else facts.answered.confidence
        if claim.form == "planned each":  # each may fail
            probability = 2.0 * probability - 1.0
        found.append(Verdict(claim, held, 1.0 if certain else probability, _words(claim, facts)))
    return found


def _words(claim: Claim, facts: Facts) -> str:
    answered, exact = facts.answered, facts.exact
    shown = f"[{answered.lower:.6g}, {answered.upper:.6g}] {answered.value:.6g}, exact {exact.least:.6g}"
    if facts.question.aggregate == "heavy-hitters":
        shown = f"{len(answered.items)} items, largest unlisted share {facts.largest_unlisted:.6g}"
    return f"{claim.text!r}: {shown}"
