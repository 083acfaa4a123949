"""How large the ladder of a stream must be for the accuracy asked for, and what is kept besides; docs/sample.md derives
it."""

from __future__ import annotations

import math
from typing import Final

from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError, WaneError
from sketches.hashing import refuse_seed
from sketches.records import dataclass
from sketches.sampling.inclusion.sampling_number import DEFAULT_BITS, FEWEST_BITS, MOST_BITS
from sketches.special_functions import ndtri
from sketches.units import TimeUnit

DEFAULT_DETAIL: Final = 16
ALL: Final = 0  # detail that keeps every event
LEAST_CAPACITY: Final = 16
_LEAST_EPSILON: Final = 0.001
_LEAST_DELTA: Final = 1e-9
_MOST_CAPACITY: Final = 1 << 40
_MOST_SPAN: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class LadderParameters:
    """The accuracy asked for and the size that it takes.

    Ladders merge where unit, seed and bits agree. The rest may change while a stream lives: then less is kept from then
    on, or more of what comes.
    """

    epsilon: float
    delta: float
    detail: int  # a stretch that holds one part in so many of what has come since is answered within ε; ALL: every one
    capacity: int  # events that each level keeps
    per_source: int  # the newest events of each source that are kept besides
    fine: int  # the time before the newest event in which every event is kept besides, in units
    bits: int
    unit: TimeUnit
    seed: int

    @classmethod
    def derive(
        cls,
        epsilon: float,
        delta: float,
        unit: TimeUnit,
        seed: int,
        *,
        detail: int = DEFAULT_DETAIL,
        per_source: int = 0,
        fine: int = 0,
        bits: int = DEFAULT_BITS,
    ) -> LadderParameters:
        """The size for an accuracy.

        m = 1.25·(z/ε)² sampled events answer a sum within ε with probability 1 - δ. The level before the finest
        complete one of a stretch has overflowed, so of what has come since the stretch began the finest complete one
        holds more than C/2 sampled events on average; a stretch with a `detail`-th of them holds m of these.
        """
        for name, number in (("epsilon", epsilon), ("delta", delta)):
            if not 0 < number < 1:
                raise WaneError(f"{name} is {number!r}; it must lie strictly between 0 and 1")
        if epsilon < _LEAST_EPSILON:
            raise WaneError(f"epsilon is {epsilon}; below {_LEAST_EPSILON} a sketch is larger than most streams")
        if delta < _LEAST_DELTA:
            raise WaneError(f"delta is {delta}; the least probability of failure is {_LEAST_DELTA:g}")
        for name, least, value, most in (
            ("detail", ALL, detail, 1 << 20),
            ("per_source", 0, per_source, 1 << 31),
            ("fine", 0, fine, _MOST_SPAN),
            ("bits", FEWEST_BITS, bits, MOST_BITS),
        ):
            if not least <= value <= most:
                raise WaneError(f"{name} is {value}; it must lie between {least} and {most}")
        refuse_seed(seed)
        capacity = max(LEAST_CAPACITY, math.ceil(2.0 * detail * _enough(epsilon, delta))) if detail else _MOST_CAPACITY
        return cls(epsilon, delta, detail, capacity, per_source, fine, bits, unit, seed)

    @property
    def reduced(self) -> bool:
        """Whether a budget has left less than as of now the accuracy takes."""
        return self.capacity < 2.0 * _enough(self.epsilon, self.delta)

    @property
    def fixed(self) -> tuple[TimeUnit, int, int]:
        """What must agree before ladders merge."""
        return self.unit, self.seed, self.bits

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.f64(self.epsilon)
        writer.f64(self.delta)
        writer.u32(self.detail)
        writer.u64(self.capacity)
        writer.u64(self.per_source)
        writer.u64(self.fine)
        writer.u8(self.bits)
        writer.u64(self.unit.numerator)
        writer.u64(self.unit.denominator)
        return writer.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, seed: int) -> LadderParameters:
        reader = Reader(data)
        epsilon, delta, detail, capacity = reader.f64(), reader.f64(), reader.u32(), reader.u64()
        per_source, fine, bits = reader.u64(), reader.u64(), reader.u8()
        unit = TimeUnit(reader.u64(), reader.u64())
        reader.done()
        if not (_LEAST_EPSILON <= epsilon < 1 and _LEAST_DELTA <= delta < 1 and 0 < capacity <= _MOST_CAPACITY):
            raise CorruptError("the accuracy or size of a sample is out of range")
        if not (FEWEST_BITS <= bits <= MOST_BITS and per_source < 1 << 62 and fine <= _MOST_SPAN):
            raise CorruptError("what a sample keeps is out of range")
        if not unit.possible:
            raise CorruptError("the time unit of a sample is not a number of seconds")
        return cls(epsilon, delta, detail, capacity, per_source, fine, bits, unit, seed)


def _enough(epsilon: float, delta: float) -> float:
    """How many sampled events answer a sum within ε with probability 1 - δ (m in docs/sample.md)."""
    return 1.25 * (float(ndtri(1.0 - delta / 2.0)) / epsilon) ** 2
