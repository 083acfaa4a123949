"""The families by name: a new one is a new file and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sketches import wire
from sketches.family import Sketch
from sketches.integral import Integral
from sketches.sample import Sample

FAMILIES: Final[Mapping[str, type[Sketch]]] = {family.family: family for family in (Sample, Integral)}


def load(data: bytes | memoryview) -> Sketch:
    """The sketch in these bytes, whatever its family; `CorruptError` where they are not a whole sketch."""
    return wire.load(data, {name: family.from_envelope for name, family in FAMILIES.items()})
