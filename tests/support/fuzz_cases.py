"""What the fuzz chooses: streams, settings, ways to a sketch, and questions. All of it follows from a generator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketches import Events, Question
from sketches.arrays import Ints
from sketches.errors import WaneError
from sketches.family import Askable, Sketch
from sketches.predicate import EVERY_EVENT, Predicate, Range
from sketches.registry import load, merge_payloads
from sketches.units import SECOND, TimeUnit
from tests.support.oracle import KEY_AGGREGATES
from tests.support.streams import START, Stream

Rng = np.random.Generator
RANDOM = frozenset({"sample", "integral", "ecm", "retractable", "kll"})  # families whose bounds may fail by chance
FIXED = frozenset({"integral", "exponential", "retractable"})  # built for one decay
UNITS = (SECOND, SECOND, SECOND, TimeUnit(1, 1000), TimeUnit(60, 1), TimeUnit(1, 1_000_000))
SIZES = (0, 1, 2, 5, 30, 100, 300, 300, 1000, 1000, 1000, 1000, 3000, 3000, 3000, 3000)
MOST = 50_000
_SHOWN = ("tau", "phi", "value", "low", "high", "top", "of", "counting", "confidence")


# Streams.


def pick(rng: Rng, choices: Sequence[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def random_stream(rng: Rng, most: int = MOST) -> Stream:
    """A stream of some shape: each column by itself, so that all pairs of shapes meet."""
    n = min(MOST if rng.random() < 0.01 else int(pick(rng, SIZES)), most)
    times = _random_times(rng, n)
    values = _random_values(rng, n)
    weights = _random_weights(rng, n)
    if rng.random() < 0.35:
        values = _arranged(rng, values, times)
    if rng.random() < 0.25:
        weights = _arranged(rng, weights, pick(rng, (times, values)))
    ids = rng.integers(0, 2**50) + np.arange(n, dtype=np.int64)
    if rng.random() < 0.1 and n:
        ids = ids[rng.integers(0, n, n)]  # ids that conflict
    stream = Stream.of("fuzz", ids, times, values, weights)
    if rng.random() < 0.25 and n:
        stream = stream.duplicated(int(rng.integers(2**32)), int(pick(rng, (2, 3, 20))))
    return stream


def _arranged(rng: Rng, column: NDArray[Any], by: NDArray[Any]) -> NDArray[Any]:
    """The column so that it rises, or falls, with another one: what counts then differs from what does not."""
    found, order = column.copy(), np.argsort(by, kind="stable")
    found[order[:: int(pick(rng, (1, -1)))]] = np.sort(column)
    return found


def _random_times(rng: Rng, n: int) -> Ints:
    start = int(pick(rng, (0, START, START, START, -(10**6), 2**40, 2**54 + 1)))
    span = int(pick(rng, (1, 10, 600, 3600, 3600, 86_400, 30 * 86_400)))
    shape = pick(rng, ("uniform", "uniform", "ties", "lulls", "lulls", "burst", "one", "steady", "recent"))
    if shape == "uniform":
        t = rng.integers(0, span, n)
    elif shape == "ties":
        t = rng.choice(rng.integers(0, span, max(1, n // 20)), n)
    elif shape == "lulls":
        centres = np.cumsum(10 ** rng.uniform(1, 5, int(rng.integers(2, 6))))
        odds = rng.dirichlet(np.full(len(centres), 0.5))  # some are busy, some are not
        t = (rng.choice(centres, n, p=odds) + 10 ** rng.uniform(0.5, 2.5) * rng.random(n)).astype(np.int64)
    elif shape == "burst":
        t = np.where(rng.random(n) < 0.9, int(rng.integers(0, span)), rng.integers(0, span, n))
    elif shape == "one":
        t = np.full(n, int(rng.integers(0, span)))
    elif shape == "steady":
        t = np.arange(n) * max(1, span // max(n, 1))
    else:
        t = span - (span * rng.random(n) ** 4).astype(np.int64)
    t = np.asarray(t, np.int64)
    order = pick(rng, ("as they come", "sorted", "reversed"))
    t = t if order == "as they come" else np.sort(t) if order == "sorted" else np.sort(t)[::-1]
    return start + t


def _random_values(rng: Rng, n: int) -> NDArray[Any]:
    shape = pick(
        rng, ("few", "thousand", "zipf", "one", "different", "negative", "huge", "wide", "floats", "huge floats",
              "tiny floats", "few keys", "many keys", "different keys", "spread")
    )  # fmt: skip
    match shape:
        case "few":
            return rng.integers(0, 6, n)
        case "thousand":
            return rng.integers(0, 1000, n)
        case "zipf":
            return np.minimum(rng.zipf(1.2, n), 1_000_000)
        case "one":
            return np.full(n, int(pick(rng, (0, 7, -3, 2**40))))
        case "different":
            return rng.permutation(n)
        case "negative":
            return rng.integers(-500, 500, n)
        case "huge":
            return rng.integers(-(2**62), 2**62, n)
        case "wide":
            return rng.integers(0, 2**40, n)
        case "floats":
            return np.round(10 + 25 * rng.standard_t(3, n), 3) + 0.0
        case "huge floats":
            return rng.choice([-1, 1], n) * 10 ** rng.uniform(0, 250, n)
        case "tiny floats":
            return 10 ** rng.uniform(-300, 0, n)
        case "few keys":
            return np.array([f"k{key}" for key in rng.integers(0, 12, n)], dtype=object)
        case "many keys":
            return np.array([f"k{key}" for key in np.minimum(rng.zipf(1.3, n), 10**6)], dtype=object)
        case "different keys":
            return np.array([f"k{key}" for key in range(n)], dtype=object)
        case _:  # fifteen values of the same share: whoever cuts a list leaves out as large ones
            return np.arange(n) % 15


def _random_weights(rng: Rng, n: int) -> Ints:
    shape = pick(rng, ("one", "one", "one", "ten", "zeros", "all zero", "heavy", "huge", "step"))
    match shape:
        case "one":
            return np.ones(n, np.int64)
        case "ten":
            return rng.integers(1, 11, n)
        case "zeros":
            return rng.integers(0, 3, n)
        case "all zero":
            return np.zeros(n, np.int64)
        case "heavy":
            return np.clip(np.ceil(1 + rng.pareto(0.5, n)), 0, 2**40).astype(np.int64)
        case "huge":
            return np.full(n, 2**40)
        case _:
            return np.where(rng.random(n) < 0.02, int(pick(rng, (1000, 10**9))), 1)


# Decays, settings, and ways to a sketch.


def random_decay(rng: Rng, seconds: float, n: int, *, last: bool = False, only: str = "") -> str:
    """A decay at a scale that the stream makes interesting; `seconds` is how long it lasts."""

    def length() -> str:
        return f"{float(np.clip(max(seconds, 1e-3) * 10 ** rng.uniform(-3, 1), 1e-6, 1e11)):.4g}s"

    kinds = ("none", "window", "window", "exp", "exp", "exp window", "poly", "power", "chordal", "polyexp", "superexp",
             "log", "finite", "table", "expr")  # fmt: skip
    match only or pick(rng, (*kinds, *(("last",) * 3 if last else ()))):
        case "none":
            return "none"
        case "window":
            return f"window:{length()}"
        case "exp":
            return f"exp:half_life={length()}"
        case "exp window":
            return f"exp:half_life={length()},window={length()}"
        case "poly":
            return f"poly:alpha={rng.uniform(0.1, 4):.3g},unit={length()}"
        case "power":
            return f"power:alpha={rng.uniform(0.1, 4):.3g},unit={length()}"
        case "chordal":
            return f"chordal:{length()}"
        case "polyexp":
            return f"polyexp:k={int(rng.integers(0, 4))},half_life={length()}"
        case "superexp":
            return f"superexp:beta={rng.uniform(1.1, 4):.3g},scale={length()}"
        case "log":
            return f"log:unit={length()}"
        case "finite":
            return f"finite-exp:half_life={length()},floor={rng.uniform(0.001, 0.5):.3g}"
        case "table":
            ages = np.unique(np.round(np.sort(max(seconds, 1e-3) * 10 ** rng.uniform(-3, 1, 4)), 6))
            weights = np.sort(rng.uniform(0, 3, len(ages)))[::-1] * (rng.random() < 0.8)
            points = [f"{max(age, 1e-6):.9g}s={weight:.3g}" for age, weight in zip(ages, weights, strict=True)]
            return ",".join([f"table:0={3.0:g}", *dict.fromkeys(points)])
        case "expr":
            return f"expr:1/(1+age/{float(length()[:-1]):.4g})^2"
        case _:
            return f"last:{max(1, int(n * 10 ** rng.uniform(-2, 0.3)))}"


def duration_of(stream: Stream, unit: TimeUnit) -> float:
    steps = int(stream.t.max() - stream.t.min()) if len(stream) else 0
    return max(steps, 1) * unit.numerator / unit.denominator


def random_settings(rng: Rng, family: str, stream: Stream, unit: TimeUnit) -> dict[str, Any]:
    """The settings of one sketch, its seed apart."""
    accuracies = (0.1, 0.2, 0.3, 0.5, 0.5) if family in ("sample", "integral") else (0.05, 0.1, 0.2, 0.3, 0.5)
    accuracies = (0.02, 0.05, 0.1, 0.2, 0.3) if family == "kll" else accuracies
    settings: dict[str, Any] = {"unit": unit, "epsilon": float(pick(rng, accuracies))}
    if family in RANDOM:
        settings["delta"] = float(pick(rng, (0.05, 0.05, 0.1, 0.01)))
    if family == "sample":
        settings["detail"] = 1  # or the streams here would be kept whole
        settings["per_source"], settings["fine"] = int(pick(rng, (0, 0, 5))), int(pick(rng, (0, 0, 60)))
    if family in FIXED:
        seconds = duration_of(stream, unit)
        kinds = ("none", "window", "exp", "poly", "chordal", "log", "expr", "table", "superexp")
        only = "exp" if family != "integral" else pick(rng, kinds)
        settings["decay"] = random_decay(rng, seconds, len(stream), only=only)
    if family in ("wbmh", "division"):  # slow enough for blocks of time, and asked under any decay
        kinds = ("none", "poly", "poly", "power", "log", "expr")
        settings["decay"] = random_decay(rng, duration_of(stream, unit), len(stream), only=pick(rng, kinds))
    if family in ("histogram", "qdigest", "wbmh", "division"):
        steps = int(stream.t.max() - stream.t.min()) if len(stream) else 0
        settings["span"] = int(np.clip(steps // int(pick(rng, (1, 1, 2, 5, 20))), 1, 2**47))
        if rng.random() < 0.2:
            settings["span"] = 86_400
    if family in (*FIXED, "ecm"):
        settings["counting"] = pick(rng, ("events", "weight"))
    if family == "integral" and not settings["decay"].startswith(("none", "window")) and rng.random() < 0.15:
        settings["scale"] = 1  # weights rounded down, as in the paper
    if family == "ecm":
        _add_ecm_settings(rng, settings, stream)
    return settings


def _add_ecm_settings(rng: Rng, settings: dict[str, Any], stream: Stream) -> None:
    settings["keeping"] = pick(rng, ("eh", "eh", "dw", "rw"))
    settings["purpose"] = pick(rng, ("point", "point", "inner"))
    if settings["keeping"] == "rw":
        settings["counting"] = "events"
        settings["epsilon"] = max(settings["epsilon"], 0.2)
    whole = stream.v.dtype.kind == "i" and (len(stream) == 0 or (stream.v.min() >= 0 and stream.v.max() < 2**20))
    if whole and rng.random() < 0.6:
        most = int(stream.v.max()) if len(stream) else 7
        settings["bits"] = max(1, most.bit_length() + int(rng.integers(0, 2)))
        settings["epsilon"] = max(settings["epsilon"], 0.1)


@dataclass(frozen=True)
class Way:
    """How a sketch comes about: in one batch, by merging parts, or as sketches of epochs and sources side by side."""

    name: str
    parts: int
    through_bytes: bool
    seed: int
    epochs: int = 60  # at most
    spread: str = "at random"  # over the parts: or in order, or a tenth of the rows late
    least_runs: int = 1  # that add to an epoch, where there are several commits

    def sketch(self, family: type[Sketch], rows: Stream, settings: dict[str, Any]) -> Askable:
        rng = np.random.default_rng(self.seed)

        def build(part: Stream) -> Sketch:
            made = family.build(Events.of(part.ids, part.t, part.v, part.w), **settings)
            return family.from_bytes(made.to_bytes()) if self.through_bytes else made

        if self.name in ("epochs", "commits"):
            return self._side_by_side(rng, family, rows, settings, build)
        if self.name == "batch" or not len(rows):
            return build(rows)
        sketches = [build(part) for part in self._dealt(rows, self.parts)]
        if self.name == "union":
            return family.union(sketches)
        while len(sketches) > 1:
            at = 0 if self.name == "chain" else int(rng.integers(len(sketches) - 1))
            sketches[at : at + 2] = [sketches[at].merge(sketches[at + 1])]
            if self.through_bytes and rng.random() < 0.2:
                sketches[at] = family.from_bytes(sketches[at].to_bytes())
        return sketches[0]

    def _side_by_side(
        self, rng: Rng, family: type[Sketch], rows: Stream, settings: dict[str, Any], build: Callable[[Stream], Sketch]
    ) -> Askable:
        """As the store does: a sketch for each source and epoch, sources gathered, epochs side by side.

        With several commits the bytes of each sketch are merged with those of the next.
        """
        if not len(rows):
            return family.side_by_side([family.gather([build(rows)])])
        steps = int(rows.t.max() - rows.t.min())
        length = int(settings.get("span", max(1, steps // max(1, self.parts))))
        length = max(length, steps // self.epochs + 1)
        source = rng.integers(0, int(pick(rng, (1, 1, 2, 4))), len(rows))
        epoch = rows.t // length
        gathered = []
        for one in np.unique(epoch).tolist():
            inside = np.flatnonzero(epoch == one)
            sources = [inside[source[inside] == each] for each in np.unique(source[inside])]
            gathered.append(family.gather([self._stored(rng, rows.take(each), build) for each in sources]))
        return family.side_by_side(gathered)

    def _dealt(self, rows: Stream, parts: int) -> list[Stream]:
        """The rows of each part; one may have none."""
        if self.spread == "at random":
            return rows.split(parts, self.seed)
        rng, part = np.random.default_rng(self.seed), np.empty(len(rows), np.int64)
        part[np.argsort(rows.t, kind="stable")] = np.arange(len(rows)) * parts // max(len(rows), 1)
        if self.spread == "a tenth late":
            late = rng.random(len(rows)) < 0.1
            part = np.where(late, np.minimum(part + rng.integers(0, parts, len(rows)), parts - 1), part)
        return [rows.take(np.flatnonzero(part == number)) for number in range(parts)]

    def _stored(self, rng: Rng, rows: Stream, build: Callable[[Stream], Sketch]) -> Sketch:
        if self.name == "epochs":
            return build(rows)
        first, *later = self._dealt(rows, int(rng.integers(self.least_runs, self.least_runs + 4)))
        payload = build(first).to_bytes()
        for part in later:
            payload = merge_payloads([payload, build(part).to_bytes()])
        return load(payload)


def random_way(rng: Rng, family: str = "") -> Way:
    name = pick(rng, ("batch", "batch", "epochs", "commits", "tree", "union", "chain"))
    parts = int(pick(rng, (2, 3, 7))) if name != "chain" else int(pick(rng, (4, 24)))
    if family == "integral":  # it searches when each event expires, at every merge
        return Way(name, min(parts, 3), bool(rng.random() < 0.3), int(rng.integers(2**32)), epochs=4)
    return Way(name, parts, bool(rng.random() < 0.3), int(rng.integers(2**32)))


def merged_way(rng: Rng, family: str = "") -> Way:
    """No batch, and no epochs of one run: many parts, as hourly runs, late files or many sites bring them."""
    name = pick(rng, ("tree", "union", "chain", "commits"))
    parts = int(pick(rng, (2, 3, 24, 100)))
    spread = pick(rng, ("in order", "a tenth late", "at random"))
    few = family == "integral"  # see above
    through_bytes, seed = bool(rng.random() < 0.3), int(rng.integers(2**32))
    return Way(name, min(parts, 3) if few else parts, through_bytes, seed, 4 if few else 8, spread, least_runs=2)


# Questions.


@dataclass(frozen=True)
class Inquiry:
    """What is asked: one question at one time, at many times, or along a curve."""

    form: str  # answer, series, quantile curve, threshold curve
    question: Question
    axis: tuple[float, ...] = ()

    def words(self, now: int) -> str:
        """Short enough for a line."""
        question = self.question
        parts = [question.aggregate, question.decay.spec]
        if question.as_of is not None:
            parts.append(f"as_of=now{question.as_of - now:+d}")
        given = {name: getattr(question, name) for name in _SHOWN}
        parts += [f"{name}={value!r}" for name, value in given.items() if value is not None]
        if question.where:
            parts.append(f"where {question.where.words()}")
        if self.form != "answer":
            shown = ", ".join(f"{at - now if self.form == 'series' else at:.6g}" for at in self.axis[:6])
            parts.append(f"{self.form} at [{shown}{', …' if len(self.axis) > 6 else ''}]")
        return " ".join(parts)


@dataclass(frozen=True)
class Chooser:
    """Chooses questions about one stream that one family may answer."""

    rng: Rng
    family: type[Sketch]
    stream: Stream
    settings: dict[str, Any]
    now: int

    @property
    def unit(self) -> TimeUnit:
        unit: TimeUnit = self.settings["unit"]
        return unit

    def inquiries(self, count: int) -> list[Inquiry]:
        return [one for one in (self._one() for _ in range(count)) if one is not None]

    def _one(self) -> Inquiry | None:
        abilities = self.family.abilities
        roll = self.rng.random()
        form = "answer" if roll < 0.8 else "series" if roll < 0.92 or not abilities.curves else "curve"
        try:
            if form == "curve":
                return self._curve()
            question = self._question(pick(self.rng, self._aggregates()))
            if form == "series" and question.aggregate not in ("heavy-hitters", "inner-product"):
                times = sorted({self._moment() for _ in range(int(self.rng.integers(1, 12)))})
                return Inquiry("series", question, tuple(times))
            return Inquiry("answer", question)
        except WaneError:
            return None  # a range that is empty, or a predicate that contradicts the question

    def _aggregates(self) -> list[str]:
        known = [one for one in self.family.abilities.aggregates if not self.stream.is_text or one in KEY_AGGREGATES]
        known = [one for one in known if one != "ratio"]  # `tests.support.wide` asks for ratios of all measures
        lists = ["heavy-hitters"] * 2 if "heavy-hitters" in known else []
        if self.family.family == "ecm" and not self.settings.get("bits"):
            known = [one for one in known if one in KEY_AGGREGATES]
        return [*known, *lists]

    def _moment(self) -> int:
        rng, t = self.rng, self.stream.t
        first = int(t.min()) if len(t) else 0
        kind = pick(rng, ("event", "between", "lull", "before", "late", "soon", "later", "far"))
        half = self._half_life()
        if kind in ("soon", "later", "far") or not self.family.abilities.past or not len(t):
            steps = {"soon": 3.0, "later": 10 * half}.get(kind, half * 10 ** rng.uniform(0, 3))
            return int(min(self.now + math.ceil(rng.random() * steps), 2**61))
        match kind:
            case "event":
                return int(pick(rng, t))
            case "between":
                return int(rng.integers(first, self.now + 1))
            case "lull":
                times = np.unique(t)
                gaps = np.diff(times)
                if not len(gaps):
                    return self.now
                longest = int(pick(rng, np.argsort(gaps)[-3:]))
                return int(times[longest] + pick(rng, (rng.integers(0, gaps[longest]), gaps[longest] - 1)))
            case "before":
                return first - int(rng.integers(1, 100))
            case _:
                return max(self.now - int(rng.integers(1, 4)), first)

    def _half_life(self) -> float:
        """In steps of time: of the fixed decay, or of the order of the stream's own duration."""
        duration = duration_of(self.stream, self.unit)
        if "decay" in self.settings:
            age = Question("count", self.settings["decay"]).decay.half_age
            duration = age if math.isfinite(age) and age > 0 else duration
        return duration * self.unit.denominator / self.unit.numerator

    def _common(self) -> dict[str, Any]:
        """Decay, as-of time, counting and confidence."""
        rng, abilities = self.rng, self.family.abilities
        seconds = duration_of(self.stream, self.unit)
        if rng.random() < 0.2 and abilities.past and "decay" not in self.settings:
            return self._in_a_lull()
        decay = self.settings.get("decay")
        if decay is None or (not abilities.fixed_decay and rng.random() < 0.5):
            decay = random_decay(rng, seconds, len(self.stream), last=abilities.last_events)
        counting = self.settings.get("counting", pick(rng, ("events", "weight")))
        common: dict[str, Any] = {"decay": decay, "counting": counting}
        if rng.random() < 0.65:
            common["as_of"] = self._moment()
        if rng.random() < 0.05:
            common["confidence"] = float(pick(rng, (0.8, 0.9, 0.99)))
        return common

    def _in_a_lull(self) -> dict[str, Any]:
        """At the end of a lull, under a decay by which nearly all has faded since it began."""
        rng, times = self.rng, np.unique(self.stream.t)
        gaps = np.diff(times)
        if not len(gaps):
            return {"decay": "none"}
        longest = int(pick(rng, np.argsort(gaps)[-3:]))
        seconds = float(gaps[longest]) * self.unit.numerator / self.unit.denominator
        kind = str(pick(rng, ("exp", "exp", "superexp", "polyexp", "poly", "exp window")))
        decay = random_decay(rng, seconds / 10, len(self.stream), only=kind)
        counting = self.settings.get("counting", pick(rng, ("events", "weight")))
        return {"decay": decay, "as_of": int(times[longest + 1]) - int(rng.integers(1, 4)), "counting": counting}

    def _question(self, aggregate: str) -> Question:
        rng, abilities = self.rng, self.family.abilities
        asked = self._common()
        if aggregate in ("sum", "mean", "variance", "stddev", "range-sum", "correlated-sum", "correlated-mean"):
            of_value = abilities.of_value and not self.stream.is_text and rng.random() < 0.4
            asked["of"] = "value" if of_value else "weight"
        if aggregate == "heavy-hitters":
            asked |= self._list()
        elif aggregate in ("rank", "frequency"):
            asked["value"] = self._value()
        elif aggregate == "quantile":
            asked["phi"] = self._phi()
        elif aggregate.startswith("range-") or (aggregate == "selectivity" and rng.random() < 0.5):
            asked["low"], asked["high"] = sorted((self._value(), self._value()))
            if aggregate == "selectivity" and rng.random() < 0.4:
                asked.pop(pick(rng, ("low", "high")))
        elif aggregate == "selectivity" or aggregate.startswith("correlated-"):
            asked["tau"] = self._tau()
        if abilities.columns and rng.random() < 0.25:
            asked["where"] = self._where()
        return Question(aggregate, **asked)

    def _list(self) -> dict[str, Any]:
        rng = self.rng
        top, phi = int(pick(rng, (1, 2, 5, 10, 30))), round(float(10 ** rng.uniform(-2, -0.05)), 4)
        return pick(rng, ({}, {"top": top}, {"phi": phi}, {"phi": phi}, {"phi": phi, "top": top}))  # type: ignore[no-any-return]

    def _phi(self) -> float:
        return round(float(pick(self.rng, (self.rng.uniform(0.001, 0.999), 0.5, 0.25, 0.9, 0.99, 0.01, 1 / 3))), 6)

    def _tau(self) -> float | str:
        if self.rng.random() < 0.5:
            return self._value()  # type: ignore[no-any-return]
        means = ("mean", "1.5*mean") if self.family.abilities.any_threshold else ()
        return str(pick(self.rng, ("median", "q0.9", "q0.1", "2*median", "0.5*q0.75", *means)))

    def _value(self) -> Any:
        """A value that occurs, or one beside it, or one that does not."""
        rng, values = self.rng, self.stream.v
        if self.stream.is_text:
            return str(pick(rng, values)) if len(values) and rng.random() < 0.9 else "nobody"
        if not len(values):
            return int(rng.integers(-3, 10))
        found = pick(rng, values).item()
        roll = rng.random()
        if roll < 0.75:
            return found
        if roll < 0.85:
            if isinstance(found, float):
                return found * 1.5
            return found + pick(rng, (-1, 1, 0.5 if abs(found) < 2**50 else 2))  # beyond 2^53 floats have no halves
        return pick(rng, (0, -1, 5.5, 10**6, -(10**6)))

    def _where(self) -> Predicate:
        rng, columns = self.rng, self.family.abilities.columns
        column = pick(rng, sorted(columns))
        if column == "value" and self.stream.is_text:
            return Predicate.of(self._value())
        numbers = {"value": self.stream.v, "weight": self.stream.w, "time": self.stream.t}[column]
        if not len(numbers):
            return EVERY_EVENT
        low, high = sorted((pick(rng, numbers).item(), pick(rng, numbers).item()))
        opened = {"open_low": bool(rng.random() < 0.3), "open_high": bool(rng.random() < 0.3)}
        limits = pick(rng, (Range(low, high), Range(low=low), Range(high=high)))
        limits = replace(limits, **opened)
        return EVERY_EVENT if limits.empty else Predicate.of(None, **{column: limits})

    def _curve(self) -> Inquiry | None:
        rng, abilities = self.rng, self.family.abilities
        if self.stream.is_text:
            return None
        if rng.random() < 0.5:
            shares = sorted({self._phi() for _ in range(int(rng.integers(2, 12)))})
            return Inquiry("quantile curve", replace(self._question("quantile"), phi=0.5), tuple(shares))
        known = [
            one for one in ("correlated-sum", "correlated-count", "correlated-mean") if one in abilities.aggregates
        ]
        question = self._question(pick(rng, known))
        if isinstance(question.tau, str) or question.of_value:
            question = replace(question, tau=0.0, of=None if question.aggregate == "correlated-count" else "weight")
        taus = sorted({float(self._value()) for _ in range(int(rng.integers(2, 12)))})
        return Inquiry("threshold curve", question, tuple(taus))
