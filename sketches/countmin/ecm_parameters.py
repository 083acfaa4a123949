"""What an `ecm` sketch is built for, and from ε and δ to its size (paper E §4)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from sketches.arrays import Words
from sketches.countmin.window_logs import BASES, Basis, aggregated_error
from sketches.encoding.envelope import FORMAT_VERSION, Reader, Writer
from sketches.errors import CorruptError, WaneError
from sketches.events import Kind
from sketches.hashing import refuse_seed, salt
from sketches.question import Counting
from sketches.records import dataclass
from sketches.units import TimeUnit
from sketches.vocabulary import COUNTINGS

Keeping = Literal["eh", "dw", "rw"]
Purpose = Literal["point", "inner"]

KEEPINGS: Final = ("eh", "dw", "rw")
PURPOSES: Final = ("point", "inner")
_MOST_CELLS: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class EcmParameters:
    """Accuracy and what it is for; sketches merge only where all of this agrees.

    `bits` is the size of the domain of whole numbers over which ranges are asked, 0 where none are; values beyond its
    ends count as the ends. `counting` is what an event adds to its counters: 1, or its weight.
    """

    epsilon: float
    delta: float
    keeping: Keeping
    purpose: Purpose
    basis: Basis
    bits: int
    unit: TimeUnit
    seed: int
    counting: Counting = "events"

    def __post_init__(self) -> None:
        for name, number in (("epsilon", self.epsilon), ("delta", self.delta)):
            if not 0 < number < 1:
                raise WaneError(f"{name} is {number!r}; it must lie strictly between 0 and 1")
        if self.epsilon < 0.001 or self.delta < 1e-9:
            raise WaneError("epsilon must be at least 0.001 and delta at least 1e-9")
        for name, choice, known in (
            ("keeping", self.keeping, KEEPINGS),
            ("purpose", self.purpose, PURPOSES),
            ("basis", self.basis, BASES),
            ("counting", self.counting, COUNTINGS),
        ):
            if choice not in known:
                raise WaneError(f"{name} is {choice!r}; it must be one of {', '.join(known)}")
        if not 0 <= self.bits <= 62:
            raise WaneError(f"bits is {self.bits!r}; a domain for ranges has at most 62 bits, and 0 is none")
        refuse_seed(self.seed)
        if self.width * self.rows * (1 + self.bits) > _MOST_CELLS:
            raise WaneError("an ecm sketch of this accuracy over this domain has more than 16 million counters")

    @property
    def window_error(self) -> float:
        """ε_sw, the error of a counter: the share of ε that takes the least memory."""
        return split(self.epsilon, self.purpose)[0]

    @property
    def sketch_error(self) -> float:
        """ε_cm, the error of Count-Min."""
        return split(self.epsilon, self.purpose)[1]

    def counter_error(self, depth: int) -> float:
        """The error of a counter after so many aggregations."""
        return aggregated_error(self.window_error, depth)

    @property
    def width(self) -> int:
        return math.ceil(math.e / self.sketch_error)

    @property
    def rows(self) -> int:
        """ln 1/δ_cm."""
        return max(1, math.ceil(math.log(1.0 / self.sketch_delta)))

    @property
    def sketch_delta(self) -> float:
        """δ_cm, the part of δ that is Count-Min's; randomised waves take the other half (E §4.2.2)."""
        return self.delta / 2.0 if self.keeping == "rw" else self.delta

    def excess(self, together: int) -> float:
        """Which part of all arrivals collides with a value in each of its rows but with probability δ / `together`.

        By Markov's inequality, ε_cm of one value and more of several that are to be right all at once.
        """
        return float((together / self.sketch_delta) ** (1.0 / self.rows) / self.width)

    @property
    def salts(self) -> Words:
        """One for each row of each level: rows of one level after the other."""
        return np.array([salt(self.seed, row) for row in range(self.rows * (1 + self.bits))], np.uint64)

    def levels(self, kind: Kind) -> int:
        """One sketch of values, and of whole numbers one of every dyadic range above them."""
        return 1 + self.bits if kind is Kind.INTEGER else 1

    def cells(self, kind: Kind) -> int:
        """Counters in all; the last one counts every arrival."""
        return self.levels(kind) * self.rows * self.width + 1

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.f64(self.epsilon)
        writer.f64(self.delta)
        writer.u8(KEEPINGS.index(self.keeping))
        writer.u8(PURPOSES.index(self.purpose))
        writer.u8(BASES.index(self.basis))
        writer.u8(self.bits)
        writer.u64(self.unit.numerator)
        writer.u64(self.unit.denominator)
        writer.u8(COUNTINGS.index(self.counting))
        return writer.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, seed: int, version: int = FORMAT_VERSION) -> EcmParameters:
        reader = Reader(data, version)
        epsilon, delta = reader.f64(), reader.f64()
        keeping, purpose, basis, bits = reader.u8(), reader.u8(), reader.u8(), reader.u8()
        unit = TimeUnit(reader.u64(), reader.u64())
        counting = reader.u8() if version > 1 else COUNTINGS.index("weight")  # before there was a choice
        reader.done()
        choices = ((keeping, KEEPINGS), (purpose, PURPOSES), (basis, BASES), (counting, COUNTINGS))
        if any(choice >= len(known) for choice, known in choices):
            raise CorruptError("the counters of an ecm sketch are of an unknown kind")
        if not unit.possible:
            raise CorruptError("the time unit of a sketch is not a number of seconds")
        try:
            accuracy = cls(epsilon, delta, KEEPINGS[keeping], PURPOSES[purpose], BASES[basis], bits, unit, seed)
            return replace(accuracy, counting=COUNTINGS[counting])
        except WaneError as error:
            raise CorruptError(f"the parameters of a sketch are out of range: {error}") from error


def split(epsilon: float, purpose: Purpose) -> tuple[float, float]:
    """ε_sw and ε_cm with the least memory, which is as 1/(ε_sw·ε_cm), that keep the error of a query at ε.

    Point queries err by ε_sw + ε_cm + ε_sw·ε_cm (E, Theorem 1), least where both are sqrt(1 + ε) - 1. Inner products
    err by ε_sw² + 2·ε_sw + ε_cm·(1 + ε_sw)² (Theorem 2): with s = 1 + ε_sw the product is (s - 1)·((1 + ε)/s² - 1),
    whose derivative vanishes where s³ + (1 + ε)·s = 2·(1 + ε).

    >>> [round(part, 4) for part in (*split(0.1, "point"), *split(0.1, "inner"))]
    [0.0488, 0.0488, 0.024, 0.0491]
    """
    if purpose == "point":
        half = math.sqrt(1.0 + epsilon) - 1.0
        return half, half
    low, high = 1.0, math.sqrt(1.0 + epsilon)
    for _ in range(200):
        middle = (low + high) / 2.0
        rising = middle**3 + (1.0 + epsilon) * middle < 2.0 * (1.0 + epsilon)
        low, high = (middle, high) if rising else (low, middle)
    return low - 1.0, (1.0 + epsilon) / low**2 - 1.0
