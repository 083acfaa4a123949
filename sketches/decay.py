"""Decay functions: how much an event still counts at a given age, chosen when the question is asked.

A decay function has 0 ≤ f(age) ≤ 1 and never rises (paper B, Definition 1.1). Ages are seconds; an age below 0 belongs
to an event newer than the as-of time and weighs exactly 0. What can be guaranteed depends on its `DecayClass`. Any
decay may end in a window beyond which nothing counts: ``exp:half_life=30m,window=1d``.

>>> half = parse_decay("exp: half_life = 30m")
>>> half.spec, str(half.decay_class), half([-1, 0, 1800, 3600]).round(9).tolist()
('exp:half_life=30m', 'exponential', [0.0, 1.0, 0.5, 0.25])
"""

from __future__ import annotations

import difflib
import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import ClassVar, Self, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sketches import formula
from sketches.errors import DecayError
from sketches.formula import Formula, format_duration, format_number, parse_duration, read_quantity, shorten

__all__ = ["EXAMPLES", "Decay", "DecayClass", "format_duration", "parse_decay", "parse_duration"]
Array = NDArray[np.float64]
MAX_LENGTH = 600  # characters
_WINDOW = re.compile(r"(?:(.*),|([^:]*):)\s*window\s*=(.*)", re.DOTALL)  # what is cut, and where


class DecayClass(StrEnum):
    """What a decay function allows to promise (B §1.2, with f(x+1)/f(x) its ratio over a second)."""

    NONE = "none"  # f = 1
    FINITE = "finite"  # f = 0 from some age on: no small sketch gives relative error for τ-sums
    CONVERGING = "converging"  # the ratio never falls: relative error is possible
    EXPONENTIAL = "exponential"  # the ratio is constant: no small sketch gives relative error for τ-sums
    SUPER_EXPONENTIAL = "super-exponential"  # from some age on the ratio stays below a constant < 1: likewise
    GENERAL = "general"  # a decay function of which none of these could be shown (tables and formulas only)


@dataclass(frozen=True)
class _Parameter:
    """How one parameter is read, written and refused."""

    valid: str
    accepts: Callable[[float], bool]
    duration: bool = False

    def read(self, owner: str, text: str) -> float:
        quantity = read_quantity(text.strip())
        if quantity is None or (quantity[1] and not self.duration):
            raise DecayError(f"{owner} is {shorten(text.strip())!a}; it must be {self.valid}")
        return self.check(owner, quantity[0])

    def check(self, owner: str, value: float) -> float:
        if not self.accepts(value):
            raise DecayError(f"{owner} is {format_number(value)}; it must be {self.valid}")
        return value

    def write(self, value: float) -> str:
        return format_duration(value) if self.duration else format_number(value)


_DURATION = _Parameter(formula.DURATION, lambda x: formula.SHORTEST <= x <= formula.LONGEST, duration=True)
_RATE = _Parameter("a number per second from 1e-12 to 1e8", lambda x: 1e-12 <= x <= 1e8)
_ALPHA = _Parameter("a number above 0, at most 1000", lambda x: 0 < x <= 1000)
_BETA = _Parameter("a number above 1, at most 100", lambda x: 1 < x <= 100)
_FLOOR = _Parameter("a number above 0 and below 1", lambda x: 0 < x < 1)
_DEGREE = _Parameter("a whole number from 0 to 20", lambda x: x in range(21))
_AGE = _Parameter("0 or a duration such as 90s, 15m or 1h", lambda x: 0 <= x <= formula.LONGEST, duration=True)
_WEIGHT = _Parameter("a number from 0 to 1", math.isfinite)  # one above 1 is refused later, with its age
_SHARE = _Parameter("a number from 0 to 1", lambda x: 0 <= x <= 1)
_DECAYS: dict[str, type[Decay]] = {}  # by name, filled as the classes below are defined


@dataclass_transform(frozen_default=True, eq_default=False)
class Decay(ABC):
    """A decay function f: called with ages in seconds it gives weights in [0, 1]. Immutable; equal if `spec` is."""

    name: ClassVar[str]
    example: ClassVar[str]
    parameters: ClassVar[dict[str, _Parameter]] = {}
    decay_class: DecayClass  # what guarantees depend on
    horizon: float = math.inf  # the age in seconds from which f is exactly 0
    _reach: ClassVar[float] = sys.float_info.max  # the oldest age at which f may be evaluated

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False, repr=False)(cls)
        if "name" in vars(cls):  # a cut has none of its own
            _DECAYS[cls.name] = cls

    def __post_init__(self) -> None:
        for key, parameter in self.parameters.items():
            parameter.check(f"{self.name}: {key}", getattr(self, key))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what follows the colon of a spec."""
        given = _assignments(cls, text, cls.parameters)
        if missing := [key for key in cls.parameters if key not in given]:
            raise DecayError(f"{cls.name}: {' and '.join(missing)} missing; write it like {cls.example}")
        return cls(**{key: each.read(f"{cls.name}: {key}", given[key]) for key, each in cls.parameters.items()})

    @cached_property
    def spec(self) -> str:
        """The canonical text: `parse_decay` turns it into an equal decay."""
        values = {key: each.write(getattr(self, key)) for key, each in self.parameters.items()}
        parts = [f"{key}={value}" if "=" in self.example else value for key, value in values.items()]
        return f"{self.name}:{','.join(parts)}" if parts else self.name

    def breaks(self) -> tuple[float, ...]:
        """The ages above 0 where f jumps or bends, as far as they are known (a formula's are not)."""
        return (self.horizon,) if self.horizon < math.inf else ()

    def cut(self, window: float) -> Decay:
        """The decay that is f at ages below `window` seconds and 0 from there on: this one where that changes nothing.

        >>> parse_decay("chordal:1d").cut(3600.0).spec, parse_decay("chordal:1d").cut(1e6).spec
        ('chordal:1d,window=1h', 'chordal:1d')
        """
        _DURATION.check("window", window)
        return self._cut(window) if window < self.horizon else self

    def _cut(self, window: float) -> Decay:
        return Cut(self, window)

    def split(self) -> tuple[Decay, float]:
        """This decay as one that fades and the window in seconds that cuts it, infinite where nothing does.

        >>> parse_decay("exp:half_life=30m,window=1d").split(), parse_decay("window:1h").split()
        ((parse_decay('exp:half_life=30m'), 86400.0), (parse_decay('none'), 3600.0))
        """
        return self, math.inf

    def fades_by(self, share: float) -> float:
        """The least age in seconds at which f(age) ≤ share·f(0), to the last digits; infinite where there is none.

        >>> parse_decay("poly:alpha=2,unit=1m").fades_by(0.01), parse_decay("window:1h").fades_by(0.01)
        (540.0, 3600.0)
        """
        most = _SHARE.check("share", share) * float(self(0.0))

        def faded(age: float) -> bool:
            return float(self(age)) <= most

        if faded(0.0):
            return 0.0
        low, high = 0.0, formula.SHORTEST
        while not faded(high):
            if high == self._reach:
                return math.inf
            low, high = high, min(2.0 * high, self._reach)
        return formula.edge(low, high, faded)[1]

    @cached_property
    def half_age(self) -> float:
        """The age in seconds at which half the weight is gone: a half-life, of any decay."""
        return self.fades_by(0.5)

    def __call__(self, ages: ArrayLike) -> Array:
        """Weights of the given ages, in their shape."""
        given = np.asarray(ages, dtype=np.float64)
        flat = given.reshape(-1)
        with np.errstate(all="ignore"):
            weights = self._weights(flat)
            if (future := flat < 0).any():
                weights[future] = 0.0
        return weights.reshape(given.shape)

    @abstractmethod
    def _weights(self, ages: Array) -> Array:
        """A new array of f(ages); whatever stands at ages below 0 is overwritten."""

    def __eq__(self, other: object) -> bool:
        return self.spec == other.spec if isinstance(other, Decay) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.spec)

    def __repr__(self) -> str:
        return f"parse_decay({self.spec!r})"


class NoDecay(Decay):
    """f(x) = 1."""

    name, example = "none", "none"
    decay_class = DecayClass.NONE

    def _cut(self, window: float) -> Decay:
        return Window(window)

    def _weights(self, ages: Array) -> Array:
        return np.ones_like(ages)


class Window(Decay):
    """f(x) = 1 for 0 ≤ x < horizon, else 0: the sliding window."""

    horizon: float
    name, example, parameters = "window", "window:1h", {"horizon": _DURATION}
    decay_class = DecayClass.FINITE

    def _cut(self, window: float) -> Decay:
        return Window(window)

    def split(self) -> tuple[Decay, float]:
        return NoDecay(), self.horizon

    def _weights(self, ages: Array) -> Array:
        return (ages < self.horizon).astype(np.float64)


class Exponential(Decay):
    """f(x) = 2^-(x/half_life) = e^(-rate·x), also written with rate = ln 2/half_life or mean_life = 1/rate."""

    half_life: float
    name, example, parameters = "exp", "exp:half_life=30m", {"half_life": _DURATION}
    decay_class = DecayClass.EXPONENTIAL

    @classmethod
    def parse(cls, text: str) -> Self:
        given = _assignments(cls, text, ("half_life", "rate", "mean_life"))
        if len(given) != 1:
            raise DecayError(
                f"exp needs exactly one of half_life, rate, mean_life; got {' and '.join(given) or 'none'}"
            )
        [(key, value)] = given.items()
        number = (_RATE if key == "rate" else _DURATION).read(f"exp: {key}", value)
        return cls({"half_life": number, "rate": math.log(2) / number, "mean_life": math.log(2) * number}[key])

    @property
    def rate(self) -> float:
        return math.log(2) / self.half_life

    def _weights(self, ages: Array) -> Array:
        return np.exp(ages * -self.rate)


class Polynomial(Decay):
    """f(x) = (1 + x/unit)^-alpha."""

    alpha: float
    unit: float
    name, example, parameters = "poly", "poly:alpha=1.5,unit=1m", {"alpha": _ALPHA, "unit": _DURATION}
    decay_class = DecayClass.CONVERGING

    def _weights(self, ages: Array) -> Array:
        return np.exp(-self.alpha * np.log1p(ages / self.unit))


class Chordal(Decay):
    """f(x) = max(0, 1 - x/horizon): a straight line down."""

    horizon: float
    name, example, parameters = "chordal", "chordal:1d", {"horizon": _DURATION}
    decay_class = DecayClass.FINITE

    def _weights(self, ages: Array) -> Array:
        return np.maximum(1.0 - ages / self.horizon, 0.0)


class PolyExponential(Decay):
    """f(x) = e^(-λx) · Σ_{j ≤ k} (λx)^j/j! with λ = ln 2/half_life: the survival function of an Erlang law.

    Paper B names (x+1)^k · 2^(-αx)/k!, which rises at first and exceeds 1, so it is no decay function by B's own
    Definition 1.1. Of the sums of such terms this is the one with f(0) = 1 that never rises: the slopes of the terms
    cancel but for the last, f'(x) = -λ · (λx)^k/k! · e^(-λx) ≤ 0. With k = 0 it is exponential decay.
    """

    k: float  # a whole number
    half_life: float
    name, example, parameters = "polyexp", "polyexp:k=2,half_life=10m", {"k": _DEGREE, "half_life": _DURATION}
    decay_class = DecayClass.SUPER_EXPONENTIAL  # also for k = 0: B's definition includes exponential decay

    def _weights(self, ages: Array) -> Array:
        scaled: Array = np.minimum(ages * (math.log(2) / self.half_life), 1e4)  # f is 0 there, and beyond
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
    name, example, parameters = "superexp", "superexp:beta=2,scale=1h", {"beta": _BETA, "scale": _DURATION}
    decay_class = DecayClass.SUPER_EXPONENTIAL

    def _weights(self, ages: Array) -> Array:
        return np.exp(-math.log(2) * np.power(ages / self.scale, self.beta))


class Logarithmic(Decay):
    """f(x) = 1/(1 + ln(1 + x/unit))."""

    unit: float
    name, example, parameters = "log", "log:unit=1m", {"unit": _DURATION}
    decay_class = DecayClass.CONVERGING

    def _weights(self, ages: Array) -> Array:
        return 1.0 / (1.0 + np.log1p(ages / self.unit))


class FiniteExponential(Decay):
    """f(x) = 2^-(x/half_life) while that is at least floor, 0 beyond."""

    half_life: float
    floor: float
    name, example = "finite-exp", "finite-exp:half_life=30m,floor=0.01"
    parameters: ClassVar = {"half_life": _DURATION, "floor": _FLOOR}
    decay_class = DecayClass.FINITE

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "horizon", math.nextafter(-self.half_life * math.log2(self.floor), math.inf))

    def _weights(self, ages: Array) -> Array:
        return np.exp(ages * (-math.log(2) / self.half_life)) * (ages < self.horizon)


class Table(Decay):
    """f is piecewise linear through points (age, weight), the first at age 0, and holds the last weight after them.

    >>> table = parse_decay("table:0=1,10m=0.5,1h=0")
    >>> table([300, 600, 7200]).tolist(), table.breaks(), str(table.decay_class)
    ([0.75, 0.5, 0.0], (600.0, 3600.0), 'finite')
    """

    points: tuple[tuple[float, float], ...]
    name, example = "table", "table:0=1,10m=0.5,1h=0"

    def __post_init__(self) -> None:
        ages, weights = self._columns
        if not self.points or ages[0] != 0 or not (np.diff(ages) > 0).all() or ages[-1] > formula.LONGEST:
            raise DecayError(f"table: ages must begin at 0 and rise, to 1e12 s at most; write it like {self.example}")
        formula.check_points(self.spec, ages, weights)
        # Between the ages where x or x+1 is a point f(x+1)/f(x) is monotone, so these decide whether it ever falls.
        ends = np.unique(np.concatenate([ages, ages[ages >= 1] - 1]))
        with np.errstate(all="ignore"):
            growth = np.diff(self._weights(ends + 1) / self._weights(ends))
        other = DecayClass.CONVERGING if (growth >= -1e-12).all() else DecayClass.GENERAL
        known = {0.0: DecayClass.FINITE, 1.0: DecayClass.NONE}
        object.__setattr__(self, "decay_class", known.get(float(weights[-1]), other))
        object.__setattr__(self, "horizon", math.inf if weights[-1] else float(ages[np.argmin(weights)]))

    @classmethod
    def parse(cls, text: str) -> Self:
        pairs = (_assignment(cls, part) for part in text.split(","))
        return cls(tuple((_AGE.read("table: age", age), _WEIGHT.read(f"table: at {age}", w)) for age, w in pairs))

    @cached_property
    def spec(self) -> str:
        return "table:" + ",".join(f"{_AGE.write(age)}={_WEIGHT.write(weight)}" for age, weight in self.points)

    @cached_property
    def _columns(self) -> tuple[Array, Array]:
        ages, weights = np.array(self.points, dtype=np.float64).reshape(-1, 2).T.copy()
        return ages, weights

    def breaks(self) -> tuple[float, ...]:
        return tuple(age for age, _ in self.points[1:])

    def _weights(self, ages: Array) -> Array:
        return np.clip(np.interp(ages, *self._columns), 0.0, 1.0)


class Expression(Decay):
    """f is a formula in `age`, checked and classed on a dense grid of ages up to 1e10 s (see `sketches.formula`).

    It cannot show a bump narrower than its gaps (0.6% of the age); range and NaN are checked at every age asked for.

    >>> parse_decay("expr:(age < 12) * 0.31 + (age >= 12) * 0.44")
    Traceback (most recent call last):
    sketches.errors.DecayError: expr:(age<12)*0.31+(age>=12)*0.44 is not a decay function: at age 12.0 s it rises
    from 0.31 to 0.44
    """

    function: Formula
    name, example = "expr", "expr:exp(-age/10m)"
    _reach = formula.LONGEST  # far beyond the grid a formula may overflow to what is no number

    def __post_init__(self) -> None:
        shown, horizon = formula.check_formula(self.spec, self.function)
        object.__setattr__(self, "decay_class", DecayClass(shown))
        object.__setattr__(self, "horizon", horizon)

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls(Formula.parse(text))

    @cached_property
    def spec(self) -> str:
        return f"expr:{self.function.text}"

    def breaks(self) -> tuple[float, ...]:
        return ()

    def _weights(self, ages: Array) -> Array:
        ages = np.maximum(ages, 0.0)
        weights = self.function(ages)
        formula.check_range(self.spec, ages, weights)
        return np.clip(weights, 0.0, 1.0, out=weights)


class Cut(Decay):
    """f(x) = base(x) for 0 ≤ x < horizon, else 0: any decay within a window. `Decay.cut` makes it.

    >>> cut = parse_decay("table:0=1,10m=0.5,1h=0,window=30m")
    >>> cut([600, 1799, 1800]).round(3).tolist(), cut.breaks(), str(cut.decay_class)
    ([0.5, 0.3, 0.0], (600.0, 1800.0), 'finite')
    """

    base: Decay
    horizon: float
    decay_class = DecayClass.FINITE

    def __post_init__(self) -> None:
        _DURATION.check("window", self.horizon)
        if isinstance(self.base, NoDecay | Window | Cut) or self.horizon >= self.base.horizon:
            raise DecayError(f"{self.spec} has a shorter way to say it; make it with parse_decay or Decay.cut")
        _refuse_long(self)

    @cached_property
    def spec(self) -> str:
        return f"{self.base.spec},window={_DURATION.write(self.horizon)}"

    def breaks(self) -> tuple[float, ...]:
        return (*(age for age in self.base.breaks() if age < self.horizon), self.horizon)

    def _cut(self, window: float) -> Decay:
        return self.base.cut(window)

    def split(self) -> tuple[Decay, float]:
        return self.base, self.horizon

    def _weights(self, ages: Array) -> Array:
        inside = ages < self.horizon
        weights = self.base._weights(np.where(inside, ages, 0.0))  # a formula need not hold where it does not count
        weights *= inside
        return weights


EXAMPLES: dict[str, str] = {name: each.example for name, each in _DECAYS.items()}


def parse_decay(text: str) -> Decay:
    """The decay that `text` names; a DecayError says what is wrong and what would be valid.

    >>> parse_decay("windw:1h")
    Traceback (most recent call last):
    sketches.errors.DecayError: unknown decay 'windw'; did you mean window? Write one of: none  window:1h ...
    """
    if len(text) > MAX_LENGTH:
        raise DecayError(f"the decay has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    if match := _WINDOW.fullmatch(text):
        return _parse_cut(match[1] or match[2] or "", match[3])
    name, _, rest = (part.strip() for part in text.partition(":"))
    if name not in _DECAYS:
        close = difflib.get_close_matches(name, _DECAYS, n=1, cutoff=0.4)
        hint = f"; did you mean {close[0]}?" if close else "."
        known = "  ".join(EXAMPLES.values())
        raise DecayError(f"unknown decay {shorten(name)!a}{hint} Write one of: {known}; each may end in ,window=1d")
    decay = _DECAYS[name].parse(rest)
    _refuse_long(decay)
    return decay


def _parse_cut(base: str, window: str) -> Decay:
    if _WINDOW.fullmatch(base):
        raise DecayError(f"window is given twice, after {shorten(base)!a} as well; a decay is cut once")
    if "," in window:
        raise DecayError(f"window is {shorten(window.strip())!a}; it must come last, like exp:half_life=30m,window=1d")
    return parse_decay(base).cut(_DURATION.read("window", window))


def _refuse_long(decay: Decay) -> None:
    """A decay whose own text could not be read back is none."""
    if (length := len(decay.spec)) > MAX_LENGTH:
        name = decay.spec.partition(":")[0]
        raise DecayError(f"the {name} has {length} characters written out; at most {MAX_LENGTH} are allowed")


def _assignment(decay: type[Decay], part: str) -> tuple[str, str]:
    key, equals, value = (piece.strip() for piece in part.partition("="))
    if not (key and equals and value):
        raise DecayError(f"{decay.name}: {shorten(part.strip())!a} cannot be read; write it like {decay.example}")
    return key, value


def _assignments(decay: type[Decay], text: str, valid: Iterable[str]) -> dict[str, str]:
    if "=" not in decay.example:
        if bool(text) != bool(decay.parameters) or "=" in text or "," in text:
            takes = "one duration" if decay.parameters else "no parameters"
            raise DecayError(f"{decay.name} takes {takes}, not {shorten(text)!a}; write it like {decay.example}")
        return dict.fromkeys(decay.parameters, text)
    given: dict[str, str] = {}
    for key, value in (_assignment(decay, part) for part in text.split(",") if text):
        if key not in valid:
            raise DecayError(f"{decay.name} has no parameter {shorten(key)!a}; it takes {', '.join(valid)}")
        if key in given:
            raise DecayError(f"{decay.name}: {key} is given twice; it takes each of {', '.join(valid)} once")
        given[key] = value
    return given
