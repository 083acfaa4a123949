"""The decay functions by name, each with its formula."""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from sketches.arrays import Floats, distinct_sorted
from sketches.decay import checks
from sketches.decay.base import Decay, DecayClass
from sketches.decay.formula import Formula
from sketches.decay.parameters import (
    AGE,
    ALPHA,
    BETA,
    DEGREE,
    DURATION,
    EVENTS,
    FLOOR,
    RATE,
    WEIGHT,
    assignment,
    assignments,
)
from sketches.durations import LONGEST
from sketches.errors import DecayError


class NoDecay(Decay):
    """f(x) = 1."""

    name = "none"
    decay_class = DecayClass.NONE
    log_convex = True

    def _cut(self, window: float) -> Decay:
        return Window(window)

    def _weights(self, ages: Floats) -> Floats:
        return np.ones_like(ages)


class Window(Decay):
    """f(x) = 1 for 0 ≤ x < horizon, else 0: the sliding window."""

    horizon: float
    name, parameters = "window", {"horizon": DURATION}
    decay_class = DecayClass.FINITE

    def _cut(self, window: float) -> Decay:
        return Window(window)

    def split(self) -> tuple[Decay, float]:
        return NoDecay(), self.horizon

    def _weights(self, ages: Floats) -> Floats:
        return (ages < self.horizon).astype(np.float64)


class LastEvents(Decay):
    """The newest events by number, whatever their ages: f = 1 for the newest `count` events, else 0.

    Those at the very time of the oldest of them count too. Where they begin depends on the events, so whoever holds the
    events turns it into a window; it has no weight by age.
    """

    count: float
    name, parameters = "last", {"count": EVENTS}
    decay_class = DecayClass.FINITE

    def _cut(self, window: float) -> Decay:
        raise DecayError(f"{self.spec} is a window by itself: it cannot end in another one")

    @property
    def at_newest(self) -> float:
        return 1.0

    def fades_by(self, share: float) -> float:
        return math.inf

    def _weights(self, ages: Floats) -> Floats:
        raise DecayError(f"{self.spec} is a number of events: it has no weight by age")


class ExponentialDecay(Decay):
    """f(x) = 2^-(x/half_life) = e^(-rate·x), also written with rate = ln 2/half_life or mean_life = 1/rate."""

    half_life: float
    name, parameters = "exp", {"half_life": DURATION}
    decay_class = DecayClass.EXPONENTIAL
    log_convex = True

    @classmethod
    def parse(cls, text: str) -> Self:
        given = assignments(cls, text, ("half_life", "rate", "mean_life"))
        if len(given) != 1:
            raise DecayError(
                f"exp needs exactly one of half_life, rate, mean_life; got {' and '.join(given) or 'none'}"
            )
        [(key, value)] = given.items()
        number = (RATE if key == "rate" else DURATION).read(f"exp: {key}", value)
        return cls({"half_life": number, "rate": math.log(2) / number, "mean_life": math.log(2) * number}[key])

    @property
    def rate(self) -> float:
        return math.log(2) / self.half_life

    def _weights(self, ages: Floats) -> Floats:
        return np.exp(ages * -self.rate)


class Polynomial(Decay):
    """f(x) = (1 + x/unit)^-alpha."""

    alpha: float
    unit: float
    name, parameters = "poly", {"alpha": ALPHA, "unit": DURATION}
    decay_class = DecayClass.CONVERGING
    log_convex = True

    def _weights(self, ages: Floats) -> Floats:
        return np.exp(-self.alpha * np.log1p(ages / self.unit))


class Power(Decay):
    """f(x) = (max(x, unit)/unit)^-alpha: x^-alpha with ages in units, all of which up to one unit weigh 1.

    x^-alpha itself is infinite at age 0. Above `unit` f(x+1)/f(x) never falls, but at `unit` it does, so that f is not
    converging, unlike `poly`.

    >>> from sketches.decay import parse_decay
    >>> parse_decay("power:alpha=0.5,unit=1s")([0, 1, 4, 100]).round(9).tolist()
    [1.0, 1.0, 0.5, 0.1]
    """

    alpha: float
    unit: float
    name, parameters = "power", {"alpha": ALPHA, "unit": DURATION}
    decay_class = DecayClass.GENERAL

    def breaks(self) -> tuple[float, ...]:
        return (self.unit,)

    def _weights(self, ages: Floats) -> Floats:
        return np.exp(-self.alpha * np.log(np.maximum(ages, self.unit) / self.unit))


class Chordal(Decay):
    """f(x) = max(0, 1 - x/horizon): a straight line down."""

    horizon: float
    name, parameters = "chordal", {"horizon": DURATION}
    decay_class = DecayClass.FINITE

    def _weights(self, ages: Floats) -> Floats:
        return np.maximum(1.0 - ages / self.horizon, 0.0)


class PolyExponential(Decay):
    """f(x) = e^(-λx) · Σ_{j ≤ k} (λx)^j/j! with λ = ln 2/half_life: the survival function of an Erlang law.

    Paper B names (x+1)^k · 2^(-αx)/k!, which rises at first and exceeds 1, so it is no decay function by B's own
    Definition 1.1. Of the sums of such terms this is the one with f(0) = 1 that never rises: the slopes of the terms
    cancel but for the last, f'(x) = -λ · (λx)^k/k! · e^(-λx) ≤ 0. With k = 0 it is exponential decay.
    """

    k: float  # a whole number
    half_life: float
    name, parameters = "polyexp", {"k": DEGREE, "half_life": DURATION}
    decay_class = DecayClass.SUPER_EXPONENTIAL  # also for k = 0: B's definition includes exponential decay

    def _weights(self, ages: Floats) -> Floats:
        scaled: Floats = np.minimum(ages * (math.log(2) / self.half_life), 1e4)  # f is 0 there, and beyond
        total = np.ones_like(scaled)
        for j in range(int(self.k), 0, -1):  # Horner: 1 + z(1 + z/2(1 + z/3(...)))
            total *= scaled / j
            total += 1.0
        root = np.exp(-0.5 * scaled)  # keeps its digits twice as far as e^(-z)
        total *= root
        return np.minimum(total * root, 1.0)


class SuperExponential(Decay):
    """f(x) = 2^-((x/scale)^beta), beta > 1."""

    beta: float
    scale: float
    name, parameters = "superexp", {"beta": BETA, "scale": DURATION}
    decay_class = DecayClass.SUPER_EXPONENTIAL

    def _weights(self, ages: Floats) -> Floats:
        return np.exp(-math.log(2) * np.power(ages / self.scale, self.beta))


class Logarithmic(Decay):
    """f(x) = 1/(1 + ln(1 + x/unit))."""

    unit: float
    name, parameters = "log", {"unit": DURATION}
    decay_class = DecayClass.CONVERGING
    log_convex = True

    def _weights(self, ages: Floats) -> Floats:
        return 1.0 / (1.0 + np.log1p(ages / self.unit))


class FiniteExponential(Decay):
    """f(x) = 2^-(x/half_life) while that is at least floor, 0 beyond."""

    half_life: float
    floor: float
    name = "finite-exp"
    parameters: ClassVar = {"half_life": DURATION, "floor": FLOOR}
    decay_class = DecayClass.FINITE

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "horizon", math.nextafter(-self.half_life * math.log2(self.floor), math.inf))

    def _weights(self, ages: Floats) -> Floats:
        return np.exp(ages * (-math.log(2) / self.half_life)) * (ages < self.horizon)


class Table(Decay):
    """f is piecewise linear through points (age, weight), the first at age 0, and holds the last weight after them.

    >>> from sketches.decay import parse_decay
    >>> table = parse_decay("table:0=1,10m=0.5,1h=0")
    >>> table([300, 600, 7200]).tolist(), table.breaks(), str(table.decay_class)
    ([0.75, 0.5, 0.0], (600.0, 3600.0), 'finite')
    """

    points: tuple[tuple[float, float], ...]
    name = "table"

    def __post_init__(self) -> None:
        ages, weights = self._columns
        if not self.points or ages[0] != 0 or not (np.diff(ages) > 0).all() or ages[-1] > LONGEST:
            raise DecayError(f"table: ages must begin at 0 and rise, to 1e12 s at most; write it like {self.example}")
        checks.check_points(self.spec, ages, weights)
        # Between the ages where x or x+1 is a point f(x+1)/f(x) is monotone, so these decide whether it ever falls.
        ends = distinct_sorted(np.concatenate([ages, ages[ages >= 1] - 1]))
        with np.errstate(all="ignore"):
            growth = np.diff(self._weights(ends + 1) / self._weights(ends))
        other = DecayClass.CONVERGING if (growth >= -1e-12).all() else DecayClass.GENERAL
        if (weights == 1).all():
            other = DecayClass.NONE
        object.__setattr__(self, "decay_class", other if weights[-1] else DecayClass.FINITE)
        object.__setattr__(self, "horizon", math.inf if weights[-1] else float(ages[np.argmin(weights)]))

    @classmethod
    def parse(cls, text: str) -> Self:
        pairs = (assignment(cls, part) for part in text.split(","))
        return cls(tuple((AGE.read("table: age", age), WEIGHT.read(f"table: at {age}", w)) for age, w in pairs))

    @cached_property
    def spec(self) -> str:
        return "table:" + ",".join(f"{AGE.write(age)}={WEIGHT.write(weight)}" for age, weight in self.points)

    @cached_property
    def _columns(self) -> tuple[Floats, Floats]:
        ages, weights = np.array(self.points, dtype=np.float64).reshape(-1, 2).T.copy()
        return ages, weights

    def breaks(self) -> tuple[float, ...]:
        return tuple(age for age, _ in self.points[1:])

    def _weights(self, ages: Floats) -> Floats:
        return np.clip(np.interp(ages, *self._columns), 0.0, self.points[0][1])


class Expression(Decay):
    """f is a formula in `age` that is proved never to rise, at every age up to 1e12 s at the least.

    The proof is by interval arithmetic (`sketches.decay.falling`); what it cannot show is refused. The class is that
    which f shows on a dense grid of ages up to 1e10 s (`sketches.decay.checks`).

    >>> from sketches.decay import parse_decay
    >>> parse_decay("expr:(age < 12) * 0.31 + (age >= 12) * 0.44")
    Traceback (most recent call last):
    sketches.errors.DecayError: expr:(age<12)*0.31+(age>=12)*0.44 is not a decay function: at age 12.0 s it rises
    from 0.31 to 0.44
    """

    function: Formula
    name = "expr"
    _reach = LONGEST  # far beyond it a formula may overflow to NaN

    def __post_init__(self) -> None:
        shown, horizon, _ = checks.check_formula(self.spec, self.function)
        object.__setattr__(self, "decay_class", DecayClass(shown))
        object.__setattr__(self, "horizon", horizon)

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls(Formula.parse(text))

    @cached_property
    def spec(self) -> str:
        return f"expr:{self.function.text}"

    @cached_property
    def _newest(self) -> float:
        return float(self.function(0.0))

    @cached_property
    def _shown_until(self) -> float:
        return checks.check_formula(self.spec, self.function)[2]

    def breaks(self) -> tuple[float, ...]:
        return ()

    def _weights(self, ages: Floats) -> Floats:
        ages = np.maximum(ages, 0.0)
        weights = self.function(ages)
        checks.check_range(self.spec, ages, weights, self._newest, self._shown_until)
        return np.clip(weights, 0.0, self._newest, out=weights)
