"""From the accuracy asked for to the size it takes, for the families that sample (docs/sample.md, *size*)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from scipy.special import bdtrc, ndtri

from sketches.drawn import SECOND, TimeUnit
from sketches.errors import CorruptError, WaneError
from sketches.wire import Reader, Writer

_PER_COPY_DELTA: Final = 0.05
_MOST_CAPACITY: Final = 100_000_000


@dataclass(frozen=True, slots=True)
class SampleParameters:
    """Accuracy asked for, and the size it takes; sketches merge only where all of this agrees."""

    epsilon: float
    delta: float
    capacity: int  # events each level keeps; τ in paper A
    copies: int
    unit: TimeUnit
    seed: int

    @classmethod
    def derive(cls, epsilon: float, delta: float, unit: TimeUnit, seed: int) -> SampleParameters:
        """The size for an accuracy.

        The finest complete level of any window holds more than half of `capacity` sampled units (the level before it
        overflowed), so the relative standard error of any window, hence of any decay (a decay is a mixture of
        windows), is at most sqrt(2 / capacity). capacity = 2·(z/ε)² makes that ε at probability δ. Below δ = 0.05 the
        paper's way is taken: independent copies that each miss with probability 0.05, enough of them that the median
        misses with probability at most δ.
        """
        for name, number in (("epsilon", epsilon), ("delta", delta)):
            if not 0 < number < 1:
                raise WaneError(f"{name} is {number!r}; it must lie strictly between 0 and 1")
        if epsilon < 0.001:
            raise WaneError(f"epsilon is {epsilon}; below 0.001 a sketch is larger than most streams")
        if delta < 1e-9:
            raise WaneError(f"delta is {delta}; the least probability of failure is 1e-9")
        if not 0 <= seed < 1 << 64:
            raise WaneError(f"seed is {seed}; it must be at least 0 and below 2^64")
        capacity = math.ceil(2.0 * (float(ndtri(1.0 - max(delta, _PER_COPY_DELTA) / 2.0)) / epsilon) ** 2)
        copies = 1
        while copies > 1 or delta < _PER_COPY_DELTA:
            if bdtrc((copies - 1) // 2, copies, _PER_COPY_DELTA) <= delta:
                break
            copies += 2
        return cls(epsilon, delta, max(capacity, 16), copies, unit, seed)

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
        if not (unit.numerator and unit.denominator):
            raise CorruptError("the time unit of a sample is not a number of seconds")
        return cls(epsilon, delta, capacity, copies, unit, seed)


def events_kept(events: float, epsilon: float, delta: float) -> int:
    """About how many events a sketch keeps of so many with weight 1: capacity·(1 + levels/2) for each copy."""
    parameters = SampleParameters.derive(epsilon, delta, SECOND, 0)
    if events <= parameters.capacity:
        return int(events) * parameters.copies
    return round(parameters.copies * parameters.capacity * (1.0 + math.log2(events / parameters.capacity) / 2.0))
