"""The families by name: a new one is a new file and one line here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Final, TypeVar

from sketches.encoding import envelope
from sketches.errors import UnanswerableError, WaneError
from sketches.family import Sketch

# The class of each family, or where it is until it is first asked for: most questions need one family, not all.
_KNOWN: Final[dict[str, type[Sketch] | str]] = {
    "sample": "sketches.sampling.sample.Sample",
    "integral": "sketches.sampling.integral.Integral",
    "histogram": "sketches.digests.histogram.Histogram",
    "qdigest": "sketches.digests.qdigest.QDigest",
    "exponential": "sketches.digests.exponential.Exponential",
    "wbmh": "sketches.digests.wbmh.Wbmh",
    "division": "sketches.digests.division.Division",
    "retractable": "sketches.countmin.retractable.Retractable",
    "ecm": "sketches.countmin.ecm.Ecm",
    "kll": "sketches.kll.kll.Kll",
}
DEFAULT_FAMILIES: Final = ("sample",)  # what a stream keeps unless its settings say otherwise


class _Families(Mapping[str, type[Sketch]]):
    """The classes by name. Asking which names there are imports none of them."""

    def __getitem__(self, name: str) -> type[Sketch]:
        found = _KNOWN[name]
        if isinstance(found, str):
            module, _, title = found.rpartition(".")
            found = _KNOWN[name] = getattr(import_module(module), title)
        return found

    def __contains__(self, name: object) -> bool:
        return name in _KNOWN

    def __iter__(self) -> Iterator[str]:
        return iter(_KNOWN)

    def __len__(self) -> int:
        return len(_KNOWN)


FAMILIES: Final[Mapping[str, type[Sketch]]] = _Families()

F = TypeVar("F", bound=type[Sketch])


def register(family: F) -> F:
    """Make a family known to store, ingest and dashboard that has no line above. Its name must be free."""
    if family.family in FAMILIES and FAMILIES[family.family] is not family:
        raise WaneError(f"there is a family {family.family!r} already; families need names of their own")
    _KNOWN[family.family] = family
    return family


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
    return envelope.load(data, {name: partial(_opened, name) for name in FAMILIES})


def _opened(name: str, sealed: envelope.Envelope) -> Sketch:
    return FAMILIES[name].from_envelope(sealed)


def union(sketches: Sequence[Sketch]) -> Sketch:
    """One sketch of all these sketches' events, merged all at once; they are of one family."""
    return sketches[0] if len(sketches) == 1 else type(sketches[0]).union(sketches)


def merge_payloads(payloads: Sequence[bytes]) -> bytes:
    """The bytes of one sketch of all these sketches' events; one payload stays as it is."""
    return payloads[0] if len(payloads) == 1 else union([load(payload) for payload in payloads]).to_bytes()
