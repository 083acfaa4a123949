"""The contract of every family: one protocol, one vocabulary, one way to be stored."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sketches.estimate import Estimate, Series
from sketches.events import Events
from sketches.question import Question
from sketches.wire import Envelope


class Sketch(Protocol):
    """What the store, the planner and the conformance suite rely on; each family adds its own parameters to `build`.

    Sketches are values: nothing changes them once built, and `merge` returns a new one.
    """

    family: ClassVar[str]

    @classmethod
    def build(cls, events: Events, *args: Any, **settings: Any) -> Self:
        """The sketch of a batch of events; a family takes settings of its own, all of them by name."""

    def merge(self, other: Self) -> Self:
        """The sketch of both sketches' events; refuses unequal parameters or seeds and names both."""

    def insert(self, events: Events) -> Self:
        """The sketch with a further batch of events: the same as merging it with a sketch built from them."""

    def answer(self, question: Question) -> Estimate:
        """The answer with its bound; `UnanswerableError` where this family has none."""

    def series(self, question: Question, as_of: NDArray[np.int64]) -> Series:
        """The same question at many as-of times, in one pass."""

    def to_bytes(self) -> bytes:
        """The wire format of `sketches.wire`; equal sketches have equal bytes."""

    @classmethod
    def from_envelope(cls, envelope: Envelope) -> Self:
        """The sketch in an opened envelope; `CorruptError` where it holds anything else."""

    @property
    def nbytes(self) -> int:
        """The size of `to_bytes`."""
