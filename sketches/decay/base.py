"""What all decay functions share: their class, their text, where they end, and how a window cuts them.

Ages are seconds; an age below 0 belongs to an event newer than the as-of time and weighs exactly 0.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from enum import StrEnum
from functools import cached_property
from typing import ClassVar, Final, Self, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike

from sketches.arrays import Floats
from sketches.decay import checks
from sketches.decay.parameters import DURATION, SHARE, Parameter, assignments
from sketches.durations import SHORTEST
from sketches.errors import DecayError
from sketches.records import dataclass
from sketches.vocabulary import EXAMPLES

MAX_LENGTH: Final = 600  # characters of a decay written out


class DecayClass(StrEnum):
    """What can be promised under a decay function; its ratio is f(x+1)/f(x), over a second (paper B §1.2)."""

    NONE = "none"  # f = 1
    FINITE = "finite"  # f = 0 from some age on: no small sketch gives relative error for τ-sums
    CONVERGING = "converging"  # the ratio never falls: relative error is possible
    EXPONENTIAL = "exponential"  # the ratio is constant: no small sketch gives relative error for τ-sums
    SUPER_EXPONENTIAL = "super-exponential"  # the ratio stays below a constant < 1 in the end: likewise
    GENERAL = "general"  # none of these could be shown


DECAYS: dict[str, type[Decay]] = {}  # by name, filled as the classes below are defined


@dataclass_transform(frozen_default=True, eq_default=False)
class Decay(ABC):
    """A decay function f: called with ages in seconds it gives weights from f(0) down to 0 at the least.

    Immutable; equal if `spec` is.
    """

    name: ClassVar[str]
    example: ClassVar[str]  # from the vocabulary
    parameters: ClassVar[dict[str, Parameter]] = {}
    decay_class: DecayClass  # what guarantees depend on
    horizon: float = math.inf  # the age in seconds from which f is exactly 0
    log_convex: ClassVar[bool] = False  # known to be: f(x)/f(x + w) then never rises with x, whatever w is
    _reach: ClassVar[float] = sys.float_info.max  # the oldest age at which f may be evaluated

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False, repr=False)(cls)
        if "name" in vars(cls):  # a cut has none of its own
            cls.example = EXAMPLES[cls.name]
            DECAYS[cls.name] = cls

    def __post_init__(self) -> None:
        for key, parameter in self.parameters.items():
            parameter.check(f"{self.name}: {key}", getattr(self, key))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what follows the colon of a spec."""
        given = assignments(cls, text, cls.parameters)
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
        """The same decay within a window of so many seconds; this one itself where the window changes nothing.

        >>> from sketches.decay import parse_decay
        >>> parse_decay("chordal:1d").cut(3600.0).spec, parse_decay("chordal:1d").cut(1e6).spec
        ('chordal:1d,window=1h', 'chordal:1d')
        """
        DURATION.check("window", window)
        return self._cut(window) if window < self.horizon else self

    def _cut(self, window: float) -> Decay:
        return Cut(self, window)

    def split(self) -> tuple[Decay, float]:
        """The decay without its window, and the window in seconds, which is infinite where f never falls so low.

        >>> from sketches.decay import parse_decay
        >>> parse_decay("exp:half_life=30m,window=1d").split(), parse_decay("window:1h").split()
        ((parse_decay('exp:half_life=30m'), 86400.0), (parse_decay('none'), 3600.0))
        """
        return self, math.inf

    def fades_by(self, share: float) -> float:
        """The least age in seconds at which f(age) ≤ share·f(0), to the last digits; infinite where there is none.

        >>> from sketches.decay import parse_decay
        >>> parse_decay("poly:alpha=2,unit=1m").fades_by(0.01), parse_decay("window:1h").fades_by(0.01)
        (540.0, 3600.0)
        """
        most = SHARE.check("share", share) * self.at_newest

        def faded(age: float) -> bool:
            return float(self(age)) <= most

        if faded(0.0):
            return 0.0
        low, high = 0.0, SHORTEST
        while not faded(high):
            if high == self._reach:
                return math.inf
            low, high = high, min(2.0 * high, self._reach)
        return checks.edge(low, high, faded)[1]

    @property
    def at_newest(self) -> float:
        """f(0), the weight of an event at the as-of time: the factor by which sums and counts are multiplied.

        >>> from sketches.decay import parse_decay
        >>> parse_decay("exp:half_life=30m").at_newest, parse_decay("table:0=5,1h=0").at_newest
        (1.0, 5.0)
        """
        return float(self(0.0))

    @cached_property
    def half_age(self) -> float:
        """The age in seconds at which half the weight is gone: a half-life, of any decay."""
        return self.fades_by(0.5)

    def __call__(self, ages: ArrayLike) -> Floats:
        """Weights of the given ages, in their shape."""
        given = np.asarray(ages, dtype=np.float64)
        flat = given.reshape(-1)
        with np.errstate(all="ignore"):
            weights = self._weights(flat)
            if (future := flat < 0).any():
                weights[future] = 0.0
        return weights.reshape(given.shape)

    @abstractmethod
    def _weights(self, ages: Floats) -> Floats:
        """A new array of f(ages); whatever stands at ages below 0 is overwritten."""

    def __eq__(self, other: object) -> bool:
        return self.spec == other.spec if isinstance(other, Decay) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.spec)

    def __repr__(self) -> str:
        return f"parse_decay({self.spec!r})"


class Cut(Decay):
    """f(x) = base(x) for 0 ≤ x < horizon, else 0: any decay within a window. `Decay.cut` makes it.

    >>> from sketches.decay import parse_decay
    >>> cut = parse_decay("table:0=1,10m=0.5,1h=0,window=30m")
    >>> cut([600, 1799, 1800]).round(3).tolist(), cut.breaks(), str(cut.decay_class)
    ([0.5, 0.3, 0.0], (600.0, 1800.0), 'finite')
    """

    base: Decay
    horizon: float
    decay_class = DecayClass.FINITE

    def __post_init__(self) -> None:
        DURATION.check("window", self.horizon)
        if type(self.base)._cut is not Decay._cut or self.horizon >= self.base.horizon:
            raise DecayError(f"{self.spec} has a shorter way to say it; make it with parse_decay or Decay.cut")
        refuse_long(self)

    @cached_property
    def spec(self) -> str:
        return f"{self.base.spec},window={DURATION.write(self.horizon)}"

    def breaks(self) -> tuple[float, ...]:
        return (*(age for age in self.base.breaks() if age < self.horizon), self.horizon)

    def _cut(self, window: float) -> Decay:
        return self.base.cut(window)

    def split(self) -> tuple[Decay, float]:
        return self.base, self.horizon

    def _weights(self, ages: Floats) -> Floats:
        inside = ages < self.horizon
        weights = self.base._weights(np.where(inside, ages, 0.0))  # a formula need not hold where it does not count
        weights *= inside
        return weights


def refuse_long(decay: Decay) -> None:
    """Refuse a decay whose text is too long to be parsed back."""
    if (length := len(decay.spec)) > MAX_LENGTH:
        name = decay.spec.partition(":")[0]
        raise DecayError(f"the {name} has {length} characters written out; at most {MAX_LENGTH} are allowed")
