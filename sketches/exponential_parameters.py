"""Parameters of families that are built for one exponential decay: the decay, the accuracy, the unit of time."""

from __future__ import annotations

import math

import numpy as np

from sketches.arrays import Floats, Ints
from sketches.decay import Decay, parse_decay
from sketches.decay.functions import ExponentialDecay
from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError, DecayError, WaneError
from sketches.hashing import refuse_seed
from sketches.records import dataclass
from sketches.time_ranges import elapsed
from sketches.units import TimeUnit


@dataclass(frozen=True, slots=True)
class ExponentialParameters:
    """The decay, the accuracy and the length of a step of time; sketches merge only where all of this agrees."""

    epsilon: float
    decay: ExponentialDecay
    unit: TimeUnit
    seed: int

    @classmethod
    def of(cls, epsilon: float, decay: Decay | str, unit: TimeUnit, seed: int) -> ExponentialParameters:
        known = parse_decay(decay) if isinstance(decay, str) else decay
        if not isinstance(known, ExponentialDecay):
            raise WaneError(f"decay is {known.spec}; the exponential family is built for one like exp:half_life=30m")
        if not 0.0001 <= epsilon < 1:
            raise WaneError(f"epsilon is {epsilon!r}; it must be at least 0.0001 and below 1")
        refuse_seed(seed)
        return cls(float(epsilon), known, unit, seed)

    @property
    def counters(self) -> int:
        """How many keys Space-Saving keeps. A key that is not kept weighs less than 1/(counters + 1) of the total."""
        return math.ceil(1.0 / self.epsilon)

    @property
    def share(self) -> float:
        """K of `sketches.digests.dyadic_tree`: the ranges that a value cuts carry at most 2/K of the total."""
        return 2.0 / self.epsilon

    def worth(self, later: Ints | int, earlier: Ints | int) -> Floats:
        """The share of a mass that is left after the time from `earlier` to `later`."""
        return np.asarray(self.decay(self.unit.seconds(elapsed(np.asarray(later), np.asarray(earlier)))))

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.f64(self.epsilon)
        writer.u64(self.unit.numerator)
        writer.u64(self.unit.denominator)
        writer.blob(self.decay.spec.encode())
        return writer.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, seed: int) -> ExponentialParameters:
        reader = Reader(data)
        epsilon, unit = reader.f64(), TimeUnit(reader.u64(), reader.u64())
        spec = reader.blob()
        reader.done()
        if not unit.possible:
            raise CorruptError("the time unit of a sketch is not a number of seconds")
        try:
            return cls.of(epsilon, spec.decode(), unit, seed)
        except (UnicodeDecodeError, DecayError, WaneError) as error:
            raise CorruptError(f"the parameters of a sketch are out of range: {error}") from error
