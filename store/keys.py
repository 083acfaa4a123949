"""The keys of stored rows: an epoch of a source, and the key of a sketch that covers more than one epoch."""

from __future__ import annotations

from collections.abc import Set
from typing import Final, NamedTuple

from sketches.family import Scope
from sketches.registry import FAMILIES


class Epoch(NamedTuple):
    """A stretch of event time of one source, in units of the stream."""

    source: str
    start: int
    length: int

    @property
    def span(self) -> Span:
        """Its stretch of time, which other sources may have epochs of as well."""
        return Span(self.start, self.length)


class Span(NamedTuple):
    """A stretch of event time in which epochs of sources lie, in units of the stream."""

    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


ALL_EPOCHS: Final = (0, 0)  # start and length in the key of a sketch that covers all epochs; no epoch has length 0
WHOLE_STREAM: Final = Epoch("", *ALL_EPOCHS)  # the key of a sketch that covers all sources and epochs


def scope_of(family: str) -> Scope:
    """What one stored sketch of a family covers. A family that this version does not know counts as one by epoch."""
    return FAMILIES[family].scope if family in FAMILIES else Scope.EPOCH


def sketch_key(family: str, epoch: Epoch) -> Epoch:
    """The key of the family's stored sketch that covers this epoch."""
    match scope_of(family):
        case Scope.EPOCH:
            return epoch
        case Scope.SOURCE:
            return Epoch(epoch.source, *ALL_EPOCHS)
        case Scope.STREAM:
            return WHOLE_STREAM


def spans_epochs(family: str) -> bool:
    """Whether one sketch of the family covers many epochs."""
    return scope_of(family) is not Scope.EPOCH


def is_in_parts(family: str) -> bool:
    """Whether the one sketch of a stream that the family keeps is stored in parts."""
    return family in FAMILIES and FAMILIES[family].in_parts


def loses_events(family: str) -> bool:
    """Whether events can be taken out of a stored sketch of the family."""
    return is_in_parts(family) or (family in FAMILIES and FAMILIES[family].loses_events)


def is_cut(family: str) -> bool:
    """Whether one sketch of the family covers many epochs under one key, and events can be taken out of it."""
    return loses_events(family) and spans_epochs(family) and not is_in_parts(family)


def scope_fault(
    stored: Set[str], brought: Set[str], *, replacing: bool, everything: bool = False, losing: bool = False
) -> str | None:
    """Why a run cannot be added to a stream that holds events; None where it can.

    `stored` and `brought` are the families whose sketches cover many epochs: those in the store and those of the run.
    Such a sketch must hold every event of its epochs. A run that is `replacing` a range of times, `everything` where
    that is all the stream has, and a stream that is `losing` what is old need families that can take events out.
    """
    fixed = sorted(name for name in stored | brought if not loses_events(name))
    if replacing and fixed:
        return f"it cannot be backfilled: family {fixed[0]!r} keeps one sketch for many epochs and cannot replace one"
    if losing and fixed:
        return f"it cannot have a retention: family {fixed[0]!r} keeps one sketch for many epochs and cannot drop one"
    brings = {name for name in brought - stored if not (everything and is_cut(name))}
    leaves = {name for name in stored - brought if not (everything and is_cut(name))}
    if brings:
        return f"family {min(brings)!r} cannot be added: its one sketch for many epochs would lack the stored events"
    if leaves:
        return f"family {min(leaves)!r} cannot be left out: its one sketch for many epochs would lack the new events"
    return None
