"""Reads of one commit: what is asked in several parts is answered of one state of the store, or asked again.

The first part that reads fixes the commit. A later part that finds another one in the file ends all of it, and the next
attempt begins with what was found. So a writer that keeps committing costs another attempt, and never a mixture.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from sketches.events import Kind
from store.serving.catalogue import Catalogue
from store.serving.reads.cached_reads import CachedReads, Key
from store.serving.reads.opened_streams import OpenedReads
from store.serving.selection import Selection

if TYPE_CHECKING:
    from store.serving.store import Store

P = ParamSpec("P")
R = TypeVar("R")


class AnotherCommit(Exception):  # noqa: N818 - no failure, and never seen outside
    """The file holds another commit than the parts before were answered from."""

    def __init__(self, catalogue: Catalogue) -> None:
        super().__init__()
        self.catalogue = catalogue


class OneCommitReads:
    """What was read of a store, as long as it is of one commit; the reads themselves are shared with others."""

    def __init__(self, reads: CachedReads | OpenedReads, catalogue: Catalogue | None = None) -> None:
        self._reads = reads
        self._held = catalogue

    def catalogue(self, stream: str | None = None) -> Catalogue:
        """What the store held when the first part asked, of a stream or of all."""
        if self._held is None or not self._held.knows(stream):
            self._held = self._same(self._reads.catalogue(stream))
        return self._held

    def selection(self, key: Key, catalogue: Catalogue) -> tuple[Selection, Catalogue]:
        """The sketches of some sources in one family, of this commit."""
        selection, now = self._reads.selection(key, catalogue)
        return selection, self._same(now)

    def kind(self, catalogue: Catalogue, stream: str) -> tuple[Kind | None, Catalogue]:
        """What the values of a stream are; None where no sketch knows."""
        kind, now = self._reads.kind(catalogue, stream)
        return kind, self._same(now)

    def _same(self, catalogue: Catalogue) -> Catalogue:
        if self._held is not None and catalogue.name != self._held.name:
            raise AnotherCommit(catalogue)
        return catalogue


Reads = CachedReads | OpenedReads | OneCommitReads


def of_one_commit(asks: Callable[Concatenate[Store, P], R]) -> Callable[Concatenate[Store, P], R]:
    """What asks a store, with all of its parts answered from one commit."""

    @wraps(asks)
    def asked(store: Store, /, *arguments: P.args, **named: P.kwargs) -> R:
        return store.at_one_commit(lambda one: asks(one, *arguments, **named))

    return asked
