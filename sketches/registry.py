"""The families by name: a new one is a new file and one line here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

from sketches.countmin.ecm import Ecm
from sketches.countmin.retractable import Retractable
from sketches.digests.exponential import Exponential
from sketches.digests.histogram import Histogram
from sketches.digests.qdigest import QDigest
from sketches.encoding import envelope
from sketches.errors import UnanswerableError, WaneError
from sketches.family import Sketch
from sketches.sampling.integral import Integral
from sketches.sampling.sample import Sample

_KNOWN: Final[dict[str, type[Sketch]]] = {}
FAMILIES: Final[Mapping[str, type[Sketch]]] = MappingProxyType(_KNOWN)
DEFAULT_FAMILIES: Final = (Sample.family,)  # what a stream keeps unless its settings say otherwise


F = TypeVar("F", bound=type[Sketch])


def register(family: F) -> F:
    """Make a family known to store, ingest and dashboard. Its name must be free."""
    if _KNOWN.setdefault(family.family, family) is not family:
        raise WaneError(f"there is a family {family.family!r} already; families need names of their own")
    return family


register(Sample)
register(Integral)
register(Histogram)
register(QDigest)
register(Exponential)
register(Retractable)
register(Ecm)


def family_of(name: str) -> type[Sketch]:
    """The family of this name; `UnanswerableError` where this version of wane does not know it."""
    if name not in FAMILIES:
        raise UnanswerableError(
            f"family {name!r} is not known to this version of wane; known are {', '.join(FAMILIES)}"
        )
    return FAMILIES[name]


def families_with(ability: str) -> str:
    """The names of the families that have an ability, as the end of an error message.

    >>> families_with("joins")
    'sample and ecm have'
    """
    *some, last = [name for name, family in FAMILIES.items() if getattr(family.abilities, ability)]
    return f"{', '.join(some)} and {last} have" if some else f"{last} has"


def load(data: bytes | memoryview) -> Sketch:
    """The sketch in these bytes, whatever its family; `CorruptError` where they are not a whole sketch."""
    return envelope.load(data, {name: family.from_envelope for name, family in FAMILIES.items()})


def union(sketches: Sequence[Sketch]) -> Sketch:
    """One sketch of all these sketches' events, merged all at once; they are of one family."""
    return sketches[0] if len(sketches) == 1 else type(sketches[0]).union(sketches)


def merge_payloads(payloads: Sequence[bytes]) -> bytes:
    """The bytes of one sketch of all these sketches' events; one payload stays as it is."""
    return payloads[0] if len(payloads) == 1 else union([load(payload) for payload in payloads]).to_bytes()
