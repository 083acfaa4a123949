"""The families by name: a new one is a new file and one line here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from sketches import wire
from sketches.ecm import Ecm
from sketches.exponential import Exponential
from sketches.family import Sketch
from sketches.histogram import Histogram
from sketches.integral import Integral
from sketches.qdigest import QDigest
from sketches.retractable import Retractable
from sketches.sample import Sample

FAMILIES: Final[Mapping[str, type[Sketch]]] = {
    family.family: family for family in (Sample, Integral, Histogram, QDigest, Exponential, Retractable, Ecm)
}


def load(data: bytes | memoryview) -> Sketch:
    """The sketch in these bytes, whatever its family; `CorruptError` where they are not a whole sketch."""
    return wire.load(data, {name: family.from_envelope for name, family in FAMILIES.items()})


def merge_payloads(payloads: Sequence[bytes]) -> bytes:
    """The bytes of one sketch of all these sketches' events; they are of one family and one set of parameters."""
    if len(payloads) == 1:
        return payloads[0]
    sketches = [load(payload) for payload in payloads]
    union = getattr(type(sketches[0]), "union", None)  # all at once, where the family can
    merged: Sketch = union(sketches) if union is not None else reduce(lambda a, b: a.merge(b), sketches)
    return merged.to_bytes()
