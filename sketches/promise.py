"""What a family promises before it is asked: how wide an interval to expect, from its settings and what is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sketches.decay import Decay, parse_decay
from sketches.errors import DecayError
from sketches.holdings import Holdings
from sketches.question import Counting, Question
from sketches.records import dataclass

DEFAULT_EPSILON: Final = 0.05
DEFAULT_DELTA: Final = 0.05


@dataclass(frozen=True, slots=True)
class Promise:
    """How wide an interval to expect of a family, for one question to what is stored; the same measure for all of them.

    Sums, counts, means and joins: over the answer. Shares: as it is. Quantiles: as a share of the ranks. Lists: as wide
    as a listed share's interval, or as the share that a value left out may have beyond the listed ones.
    """

    width: float
    certain: bool  # the interval holds always, not only with some probability

    @classmethod
    def certainly(cls, width: float) -> Promise:
        """A promise that never fails."""
        return cls(width, True)


@dataclass(frozen=True, slots=True)
class Built:
    """How the stored sketches of a family were built (its own settings, those of its stream, the length of an epoch),
    and what the store holds of the sources that are asked."""

    own: Mapping[str, Any]
    shared: Mapping[str, Any]
    epoch_seconds: float
    weighted: bool = True  # whether the stream's events have weights of their own
    holdings: Holdings | None = None  # None: nothing is stored yet
    other: Holdings | None = None  # of the second side of an inner product
    stream: Holdings | None = None  # of all sources of the stream; None: those that are asked
    beginning: bytes = b""  # of the stored bytes of a stream's sketch; nothing: not known
    share: float | None = None  # of what counts that lies beyond the question's threshold; None: not known

    @property
    def stored(self) -> Holdings:
        """What the store holds of the sources; where nothing is stored yet, one epoch of a million events."""
        return self.holdings if self.holdings is not None else Holdings.one_epoch(self.epoch_seconds)

    @property
    def epsilon(self) -> float:
        return self._number("epsilon", DEFAULT_EPSILON)

    @property
    def delta(self) -> float:
        return self._number("delta", DEFAULT_DELTA)

    @property
    def decay(self) -> Decay | None:
        """The decay that the sketches were built for, if there is one that can be read."""
        try:
            return parse_decay(str(self.own["decay"])) if "decay" in self.own else None
        except DecayError:
            return None

    @property
    def counting(self) -> Counting:
        """What sketches that keep one of the two count; before there was a choice they counted weight."""
        return "events" if self.shared.get("counting", "weight") == "events" else "weight"

    def keeps(self, question: Question) -> bool:
        """Whether sketches that keep one mass of each event, built by the stream's setting, keep what it adds up."""
        return "value" not in question.masses and (not self.weighted or question.masses == {self.counting})

    def stated(self, name: str, default: Any) -> Any:
        """A setting of the family or else of its stream."""
        return self.own.get(name, self.shared.get(name, default))

    def _number(self, name: str, default: float) -> float:
        for settings in (self.own, self.shared):
            value = settings.get(name)
            if isinstance(value, int | float):
                return float(value)
        return default
