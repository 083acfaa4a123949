"""What every family does alike once it has `to_bytes` and `from_envelope`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from sketches.errors import CorruptError
from sketches.events import Events
from sketches.wire import Envelope, load


class Stored(ABC):
    """A sketch that can be written and read back."""

    family: ClassVar[str]
    parameters: Any  # what must agree before sketches merge

    @classmethod
    @abstractmethod
    def _of(cls, events: Events, parameters: Any) -> Self:
        """The sketch of a batch of events."""

    @classmethod
    @abstractmethod
    def union(cls, sketches: Sequence[Self]) -> Self:
        """The sketch of all the sketches' events."""

    def insert(self, events: Events) -> Self:
        return self.merge(self._of(events, self.parameters))

    def merge(self, other: Self) -> Self:
        return self.union([self, other])

    @abstractmethod
    def to_bytes(self) -> bytes:
        """The wire format of `sketches.wire`; equal sketches have equal bytes."""

    @classmethod
    def from_envelope(cls, envelope: Envelope) -> Self:
        """The sketch in an opened envelope; `CorruptError` where it holds anything else."""
        if envelope.family != cls.family:
            raise CorruptError(f"the bytes hold a sketch of family {envelope.family!r}, not {cls.family!r}")
        return cls._opened(envelope)

    @classmethod
    @abstractmethod
    def _opened(cls, envelope: Envelope) -> Self:
        """The sketch in an envelope of its own family."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return load(data, {cls.family: cls.from_envelope})

    @property
    def nbytes(self) -> int:
        """The size of `to_bytes`."""
        return len(self.to_bytes())
