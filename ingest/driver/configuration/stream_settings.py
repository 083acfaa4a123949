"""One stream as its settings say: what every other part of the driver asks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from ingest.executor.field_columns import column_name
from sketches.durations import format_duration
from sketches.event_rules import RETRACT
from sketches.family import Sketch
from sketches.question import Counting
from sketches.registry import FAMILIES
from sketches.units import TimeUnit

DEFAULT_DETAIL: Final = 16


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """One stream: a mapping from raw columns to events, and how they are sketched. Times are in units of the stream."""

    name: str
    inputs: tuple[str, ...]  # absolute globs
    format: str
    expressions: Mapping[str, str]  # by role
    unit: TimeUnit
    epoch: int
    epsilon: float
    delta: float
    seed: int
    families: tuple[str, ...]
    max_future: int | None
    max_age: int | None
    max_rejected: float | None = 0.5  # of the rows of a run
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # family → its own keywords
    value_unit: str = ""  # what axes are labelled with
    weight_unit: str = ""
    weight_step: Fraction = Fraction(1)  # sketches hold whole multiples of it
    counting: Counting = "events"
    repeats: str = "forgive"
    unique: bool = False  # the user says that no event comes twice
    detail: int = DEFAULT_DETAIL  # 0: every event is kept
    per_source: int = 0
    fine: int | None = None
    retention: int | None = None
    budget: int | None = None  # bytes
    fields: Mapping[str, str] = field(default_factory=dict)  # name → expression
    retract: str | None = None  # an expression: true of rows that take an event back
    of_sketches: bool = False  # rows are sketches that others have made, and their column takes the place of the value
    value_name: str = ""  # what the dashboard and answers call values and weights
    weight_name: str = ""
    stale: int | None = None  # how long a source may be silent before Health warns of it

    @property
    def parts(self) -> dict[str, str]:
        """All expressions: those of an event's parts by role, and those of its fields."""
        back = {} if self.retract is None else {RETRACT: self.retract}
        return {**self.expressions, **back, **{column_name(name): text for name, text in self.fields.items()}}

    def build_keywords(self, family: type[Sketch]) -> dict[str, Any]:
        """The keywords of a family's `build`: those of the stream that it takes, and its own."""
        shared = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "seed": self.seed,
            "unit": self.unit,
            "span": self.epoch,
            "counting": self.counting,
            "detail": self.detail,
            "per_source": self.per_source,
            "fine": self.fine or 0,
        }
        known = keywords_of(family)
        own = {name: value for name, value in self.extra.get(family.family, {}).items() if name in known}
        return {name: value for name, value in shared.items() if name in known} | own

    def fixed(self) -> dict[str, object]:
        """The settings that cannot change once a stream holds events: sketches with others do not merge."""
        tables = {family: fixed_part(family, keywords) for family, keywords in self.extra.items()}
        return {
            "time_unit": format_duration(self.unit.numerator / self.unit.denominator),
            "epoch": self._duration(self.epoch),
            "seed": self.seed,
            "weight_step": int(self.weight_step) if self.weight_step.denominator == 1 else float(self.weight_step),
            "counting": self.counting,
            **{name: getattr(self, name) for name in ("epsilon", "delta") if self._is_fixed(name)},
            **{family: keywords for family, keywords in tables.items() if keywords},
        }

    def _is_fixed(self, name: str) -> bool:
        """Whether a family takes the stream's setting, and its sketches with another do not merge."""
        return any(
            name in keywords_of(FAMILIES[family])
            and name not in FAMILIES[family].changeable
            and name not in self.extra.get(family, {})
            for family in self.families
        )

    def _duration(self, units: int) -> str:
        return format_duration(units * self.unit.numerator / self.unit.denominator)

    def kept(self) -> dict[str, object]:
        """How much the stream keeps, as JSON: lengths of time as text, sizes in bytes."""
        spans = {"fine": self.fine, "retention": self.retention}
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "detail": self.detail or "all",
            "per_source": self.per_source,
            **{name: self._duration(units) for name, units in spans.items() if units is not None},
            **({} if self.budget is None else {"budget": self.budget}),
        }

    def described(self) -> dict[str, object]:
        """All settings of the stream that the store keeps, as JSON."""
        return {
            **self.fixed(),
            **self.kept(),
            **{family: dict(keywords) for family, keywords in self.extra.items() if keywords},
            "input": list(self.inputs),
            "format": self.format,
            **self.expressions,
            **({"sketch": self.expressions["value"]} if self.of_sketches else {}),
            **({} if self.retract is None else {RETRACT: self.retract}),
            "fields": dict(self.fields),
            "families": list(self.families),
            "value_unit": self.value_unit,
            "weight_unit": self.weight_unit,
            "value_name": self.value_name,
            "weight_name": self.weight_name,
            "repeats": self.repeats,
            "unique": self.unique,
            **({} if self.stale is None else {"stale": self._duration(self.stale)}),
        }


def fixed_part(family: str, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Of a family's own settings those that cannot change: those of its sketches that are not said to."""
    kind = FAMILIES[family]
    built = keywords_of(kind)
    return {name: value for name, value in keywords.items() if name in built and name not in kind.changeable}


def keywords_of(family: type[Sketch]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(family.build).parameters
