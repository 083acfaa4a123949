"""What differs between a stretch of time and others: which sources and values of fields have other shares."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from sketches.changes import Between, Change, Changes, Mass, Name, Stretch, Verdict
from sketches.errors import QuestionError
from sketches.formatting import limit_texts, number_text, numbered_moment_text, percent_text
from sketches.predicate import Comparison, Term
from sketches.question import DEFAULT_TOP, Question
from sketches.records import dataclass
from sketches.units import TimeUnit
from store.serving.catalogue import StoredStream, check_known
from store.serving.provenance import Provenance, provenance_dict
from store.serving.reads.one_commit import of_one_commit
from store.serving.resolving import has_values, names_of, weight_step
from store.serving.selected import askable_of, splittable
from store.serving.split_answer import SOURCE, group_text, is_in_group
from store.serving.store import Store

REST: Final = "rest"  # of the time that is looked at, instead of the same stretch so long before


class Sides(NamedTuple):
    """The stretch of time that is marked, and those that it is compared with."""

    inside: Stretch
    outside: tuple[Stretch, ...]

    @classmethod
    def of(cls, begin: int, end: int, *, within: Stretch | None = None, before: int | None = None) -> Sides:
        """From `begin` to before `end` against the rest of a longer stretch, or against the same so long before."""
        if end <= begin:
            raise QuestionError(f"the marked time ends at {end}, not after it begins at {begin}")
        if before is not None:
            if before < end - begin:
                raise QuestionError(
                    f"the time before begins {before} units earlier, but the marked time is {end - begin} long: they "
                    "would overlap; it must be at least as long"
                )
            return cls((begin, end), ((begin - before, end - before),))
        first, last = within if within is not None else (begin, end)
        rest = [(first, min(begin, last)), (max(end, first), last)]
        outside = tuple((start, stop) for start, stop in rest if stop > start)
        if not outside:
            raise QuestionError(
                f"nothing is left to compare with: the marked time, {begin} to {end}, is all of what is looked at"
            )
        return cls((begin, end), outside)

    @classmethod
    def of_two(cls, inside: Stretch, outside: Stretch) -> Sides:
        """One stretch of time against another one."""
        for name, (begin, end) in (("the marked time", inside), ("the other time", outside)):
            if end <= begin:
                raise QuestionError(f"{name} ends at {end}, not after it begins at {begin}")
        if max(inside[0], outside[0]) < min(inside[1], outside[1]):
            raise QuestionError(f"the marked time, {inside}, and the other time, {outside}, overlap")
        return cls(inside, (outside,))


@dataclass(frozen=True)
class ChangesAnswer:
    """The sources and values that differ most, ranked; `top` of them are listed."""

    changes: Changes
    provenance: Provenance
    sides: Sides
    unit: TimeUnit
    top: int

    @property
    def listed(self) -> tuple[Change, ...]:
        return self.changes.ranked[: self.top]

    @property
    def groups(self) -> int:
        """How many groups were compared in all."""
        return sum(one.groups for one in self.changes.columns)

    def rate(self, *, inside: bool) -> tuple[float, float, float]:
        """How much came a second on one side, with its limits."""
        mass = self.changes.inside if inside else self.changes.outside
        stretches = (self.sides.inside,) if inside else self.sides.outside
        units = sum(end - begin for begin, end in stretches)
        seconds = units * self.unit.numerator / self.unit.denominator
        return mass.value / seconds, mass.lower / seconds, mass.upper / seconds

    def told(self) -> str:
        """How many have changed, in a sentence."""
        changes = self.changes
        found = {verdict: changes.counted(verdict) for verdict in Verdict}
        seen = f"{self.groups:,} sources and values" if self.groups != 1 else "1 source or value"
        if min(changes.inside.used, changes.outside.used) == 0:
            side = "in the marked time" if not changes.inside.used else "in the time it is compared with"
            return f"No event was sampled {side}, so nothing can be compared."
        if not found[Verdict.CHANGED]:
            first = f"None of {seen} has changed beyond chance"
        else:
            first = f"{found[Verdict.CHANGED]:,} of {seen} {'has' if found[Verdict.CHANGED] == 1 else 'have'} changed"
            first += " beyond chance"
        more = f"; {found[Verdict.DIFFERS]:,} more differ, but maybe by chance" if found[Verdict.DIFFERS] else ""
        return f"{first}{more}. {_together(changes)}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "inside": {"from": self.sides.inside[0], "to": self.sides.inside[1]} | _mass_dict(self.changes.inside),
            "outside": {"stretches": [list(one) for one in self.sides.outside]} | _mass_dict(self.changes.outside),
            "items": [_as_dict(one) for one in self.listed],
            "groups": {one.column: one.groups for one in self.changes.columns},
            "unseen_share": {one.column: one.unseen for one in self.changes.columns},
            "changed": self.changes.counted(Verdict.CHANGED),
            "confidence": self.changes.confidence,
            "guarantee": self.changes.guarantee,
            "family": self.changes.family,
        } | provenance_dict(self.provenance)

    def lines(self) -> Iterator[str]:
        """The answer as `wane changes` prints it."""
        begin, end = (numbered_moment_text(at, self.unit) for at in self.sides.inside)
        yield f"{'marked':12} {begin} to {end}"
        against = "; ".join(
            f"{numbered_moment_text(start, self.unit)} to {numbered_moment_text(stop, self.unit)}"
            for start, stop in self.sides.outside
        )
        yield f"{'against':12} {against}"
        for name, mass in (("inside", self.changes.inside), ("outside", self.changes.outside)):
            yield f"{name:12} {number_text(mass.value)}, {' to '.join(limit_texts(mass.lower, mass.upper))}"
        names = [f"{one.column} {name_text(one.name)}" for one in self.listed]
        wide = max(map(len, names), default=0)
        for name, one in zip(names, self.listed, strict=True):
            shares = " against ".join(f"{percent_text(side[0]):>8}" for side in (one.inside, one.outside))
            yield f"  {name:{wide}}  {shares}  {one.verdict}{' (tie)' if one.tie else ''}"
        yield f"{'told':12} {self.told()}"
        yield f"{'guarantee':12} {self.changes.guarantee}"
        yield f"{'took':12} {self.provenance.elapsed_ms:.1f} ms"


def _together(changes: Changes) -> str:
    sure = percent_text(changes.confidence)
    if changes.exact:
        return f"All shares are exact; with {sure} confidence none is called changed that chance alone has moved."
    return f"All intervals hold together at {sure} confidence, and with {sure} none is called changed that has not."


def _mass_dict(mass: Mass) -> dict[str, Any]:
    return {"estimate": mass.value, "lower": mass.lower, "upper": mass.upper, "used": mass.used}


def _as_dict(one: Change) -> dict[str, Any]:
    def side(numbers: tuple[float, float, float]) -> dict[str, float | None]:
        known = (number if math.isfinite(number) else None for number in numbers)
        return dict(zip(("estimate", "lower", "upper"), known, strict=True))

    value: Any = one.name
    if isinstance(value, Between):
        value = {"from": _finite(value.low), "below": _finite(value.high)}
    return {
        "column": one.column,
        "value": value,
        "inside": side(one.inside),
        "outside": side(one.outside),
        "apart": one.apart if math.isfinite(one.apart) else None,
        "verdict": one.verdict.value,
        "tie": one.tie,
    }


def _finite(end: float) -> float | None:
    return end if math.isfinite(end) else None


def name_text(name: Name) -> str:
    """What a group is called."""
    if not isinstance(name, Between):
        return group_text(name)
    if math.isinf(name.low):
        return "any" if math.isinf(name.high) else f"below {number_text(name.high)}"
    if math.isinf(name.high):
        return f"from {number_text(name.low)} on"
    return f"{number_text(name.low)} to {number_text(name.high)}"


def is_named(column: str, name: Name) -> tuple[Term, ...]:
    """The conditions that an event is in a group of a column."""
    if not isinstance(name, Between):
        return (is_in_group(column, name),)
    ends = (
        (Comparison(column, ">=", name.low), math.isfinite(name.low)),
        (
            Comparison(column, "<", name.high),
            math.isfinite(name.high),
        ),
    )
    return tuple(term for term, there in ends if there)


def columns_to_compare(held: StoredStream, wanted: Sequence[str]) -> tuple[list[str], bool]:
    """Which columns are compared, and whether sources are: all that a stream has, or those that were asked for."""
    names = names_of(held)
    own = {name: column for column, name in (("value", names.value), ("weight", names.weight)) if name}
    known = [*sorted(held.fields), *(["value"] if has_values(held) else []), *(["weight"] if held.weighted else [])]
    asked = [own.get(name, name) for name in wanted]
    for name in asked:
        check_known("column", name, [*known, SOURCE])
    columns = [name for name in known if name in asked or not wanted]
    by_source = SOURCE in asked or (not wanted and len(held.sources) > 1)
    if not columns and not by_source:
        raise QuestionError(f"{held.name!r} has one source, no values and no fields: nothing to compare by")
    return columns, by_source


@of_one_commit
def changes(
    store: Store,
    stream: str,
    sides: Sides,
    question: Question | None = None,
    *,
    sources: Sequence[str] = (),
    columns: Sequence[str] = (),
    top: int = DEFAULT_TOP,
) -> ChangesAnswer:
    """How the events of a stretch of time differ from those of others: which sources and values have other shares.

    The question says which events are meant, and whether shares are of events or of weight; nothing fades.
    """
    start = time.perf_counter()
    last = max(end for _, end in (sides.inside, *sides.outside))
    about = Question("count", as_of=last)
    if question is not None:
        about = replace(about, where=question.where, counting=question.counting, confidence=question.confidence)
    selected, held = store.by_group(stream, about, sources), store.catalogue(stream).stream(stream)
    names, by_source = columns_to_compare(held, columns)
    (selection,), asked = selected.selections, selected.question
    groups = splittable(selection, SOURCE) if by_source and len(selection.sources) > 1 else None
    found = askable_of(selection).changes(asked, names, *sides, groups)
    provenance = selected.provenance(np.array([last]), start)
    found = _in_own_unit(found, asked, weight_step(held))
    guarantee = provenance.qualify(found.guarantee)
    return ChangesAnswer(replace(found, guarantee=guarantee), provenance, sides, held.unit, top)


def _in_own_unit(changes: Changes, question: Question, step: float) -> Changes:
    """The changes with weights as the user knows them; sketches count in steps."""
    if step == 1.0:
        return changes
    inside, outside = (
        mass._replace(value=mass.value * step, lower=mass.lower * step, upper=mass.upper * step)
        if question.by_weight
        else mass
        for mass in (changes.inside, changes.outside)
    )
    columns = tuple(
        replace(one, names=tuple(_times(name, step) for name in one.names)) if one.column == "weight" else one
        for one in changes.columns
    )
    return replace(changes, columns=columns, inside=inside, outside=outside)


def _times(name: Name, step: float) -> Name:
    if isinstance(name, Between):
        return Between(name.low * step, name.high * step)
    return name if name is None or isinstance(name, str) else name * step
