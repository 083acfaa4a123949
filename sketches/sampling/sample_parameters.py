"""How large a sample must be for the accuracy asked for; docs/sample.md derives it."""

from __future__ import annotations

import math
from typing import Final

from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError, WaneError
from sketches.hashing import refuse_seed
from sketches.records import dataclass
from sketches.special_functions import bdtrc, ndtri
from sketches.units import TimeUnit

_DELTA_OF_A_COPY: Final = 0.05
_MOST_CAPACITY: Final = 100_000_000


@dataclass(frozen=True, slots=True)
class SampleParameters:
    """The accuracy asked for and the size that it takes. Sketches merge only where all of this agrees."""

    epsilon: float
    delta: float
    capacity: int  # events each level keeps; τ in paper A
    copies: int  # independent samples of the same events
    unit: TimeUnit
    seed: int

    @classmethod
    def derive(cls, epsilon: float, delta: float, unit: TimeUnit, seed: int) -> SampleParameters:
        """The size for an accuracy.

        The level before the finest complete one of a window has overflowed, so the finest complete one holds more than
        capacity / 2 sampled units on average. The relative standard error of any window is therefore at most
        sqrt(2 / capacity). A decay is a mixture of windows, so the same holds for any decay. capacity = 2·(z/ε)² makes
        the error exceed ε with probability at most δ. For δ below 0.05 the sketch holds independent copies, as in paper
        A: each misses with probability 0.05, and there are enough that their median misses with at most δ.
        """
        for name, number in (("epsilon", epsilon), ("delta", delta)):
            if not 0 < number < 1:
                raise WaneError(f"{name} is {number!r}; it must lie strictly between 0 and 1")
        if epsilon < 0.001:
            raise WaneError(f"epsilon is {epsilon}; below 0.001 a sketch is larger than most streams")
        if delta < 1e-9:
            raise WaneError(f"delta is {delta}; the least probability of failure is 1e-9")
        refuse_seed(seed)
        capacity = math.ceil(2.0 * (float(ndtri(1.0 - max(delta, _DELTA_OF_A_COPY) / 2.0)) / epsilon) ** 2)
        copies = 1
        while delta < _DELTA_OF_A_COPY and bdtrc((copies - 1) // 2, copies, _DELTA_OF_A_COPY) > delta:
            copies += 2
        return cls(epsilon, delta, max(capacity, 16), copies, unit, seed)

    @property
    def reduced(self) -> bool:
        """Whether it keeps less than the accuracy takes."""
        return False

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.f64(self.epsilon)
        writer.f64(self.delta)
        writer.u32(self.capacity)
        writer.u8(self.copies)
        writer.u64(self.unit.numerator)
        writer.u64(self.unit.denominator)
        return writer.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, seed: int) -> SampleParameters:
        reader = Reader(data)
        epsilon, delta, capacity, copies = reader.f64(), reader.f64(), reader.u32(), reader.u8()
        unit = TimeUnit(reader.u64(), reader.u64())
        reader.done()
        if not (0 < epsilon < 1 and 0 < delta < 1 and 0 < capacity <= _MOST_CAPACITY and copies):
            raise CorruptError("the accuracy or size of a sample is out of range")
        if not unit.possible:
            raise CorruptError("the time unit of a sample is not a number of seconds")
        return cls(epsilon, delta, capacity, copies, unit, seed)
