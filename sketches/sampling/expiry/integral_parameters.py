"""What sketches of the `integral` family must agree on before they merge: accuracy, decay, what is counted, scale."""

from __future__ import annotations

from typing import Final

from sketches.decay import Decay, parse_decay
from sketches.encoding.envelope import Reader, Writer
from sketches.errors import CorruptError, DecayError, WaneError
from sketches.question import Counting
from sketches.records import dataclass
from sketches.sampling.expiry.integral_decay import MOST_UNITS, IntegralDecay, zero_or_one
from sketches.sampling.sample_parameters import SampleParameters
from sketches.vocabulary import COUNTINGS

_DELTA_OF_SEVERAL: Final = 0.05  # of each copy, where `SampleParameters` takes several


@dataclass(frozen=True, slots=True)
class IntegralParameters:
    """The accuracy asked for, the size that it takes, the decay, what is counted, and in how small units."""

    accuracy: SampleParameters
    decay: Decay
    counting: Counting
    scale: int

    @classmethod
    def derive(
        cls, accuracy: SampleParameters, decay: Decay, counting: Counting, scale: int | None = None
    ) -> IntegralParameters:
        """The parameters with a scale that suits the accuracy, where none is given.

        With S = scale·Σ w·f, events lighter than a unit are kept by chance and add at most S to the variance, S/p after
        sampling with probability p. Above level 0 more than capacity / 2 units are sampled on average, p·S is above
        that, so the relative variance 1/(p·S) is within the 2/capacity that `SampleParameters` allows for. In level 0
        it takes S ≥ capacity / 2: true for scale ≥ capacity / 2 while the decayed sum is that of one new event or more.
        """
        if counting not in COUNTINGS:
            raise WaneError(f"counting is {counting!r}; it must be {' or '.join(map(repr, COUNTINGS))}")
        if scale is not None and not 1 <= scale <= MOST_UNITS:
            raise WaneError(f"scale is {scale}; it must be a whole number from 1 to 2^40")
        if zero_or_one(decay):
            if scale not in (None, 1):
                raise WaneError(f"scale is {scale}; under {decay.spec} events count whole, so it can only be 1")
            return cls(accuracy, decay, counting, 1)
        if scale is None:
            first = float(decay(0.0))
            needed = accuracy.capacity / 2.0 / first if first > 0.0 else 2.0
            scale = 2
            while scale < min(needed, MOST_UNITS):
                scale *= 2
        return cls(accuracy, decay, counting, scale)

    @property
    def integral_decay(self) -> IntegralDecay:
        return IntegralDecay(self.decay, self.accuracy.unit, self.scale)

    @property
    def copy_delta(self) -> float:
        """The probability with which the bound of one copy may fail."""
        return self.accuracy.delta if self.accuracy.copies == 1 else _DELTA_OF_SEVERAL

    @property
    def most_weight(self) -> float:
        """The heaviest event that can be sampled: it has 2^40 units."""
        first = float(self.decay(0.0)) * self.scale
        return MOST_UNITS / max(first, 1.0)

    def to_bytes(self) -> bytes:
        writer = Writer()
        writer.blob(self.accuracy.to_bytes())
        writer.blob(self.decay.spec.encode())
        writer.u8(COUNTINGS.index(self.counting))
        writer.varint(self.scale)
        return writer.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, seed: int, version: int) -> IntegralParameters:
        """What `to_bytes` wrote. Version 1 counted weight and rounded it down."""
        reader = Reader(data, version)
        accuracy = SampleParameters.from_bytes(reader.blob(), seed)
        try:
            decay = parse_decay(reader.blob().decode())
        except (UnicodeDecodeError, DecayError) as error:
            raise CorruptError(f"the decay of an integral sketch cannot be read: {error}") from error
        if version == 1:
            reader.done()
            return cls(accuracy, decay, "weight", 1)
        code, scale = reader.u8(), reader.varint()
        reader.done()
        if code >= len(COUNTINGS):
            raise CorruptError(f"an integral sketch counts {code}; known are {', '.join(COUNTINGS)}")
        if not 1 <= scale <= MOST_UNITS or (scale > 1 and zero_or_one(decay)):
            raise CorruptError(f"the scale of an integral sketch is {scale}, which no wane writes under {decay.spec}")
        try:
            decay(0.0)
        except DecayError as error:
            raise CorruptError(f"the decay of an integral sketch has no weight by age: {error}") from error
        return cls(accuracy, decay, COUNTINGS[code], scale)
