"""Import this in a process that others fork from: what is loaded when it is first used is then loaded for them all."""

from __future__ import annotations

from sketches import Question
from tests.support.stores import EPOCH, part, run_of
from tests.support.streams import STREAMS

_ROWS = STREAMS["uniform"](50, 1)
_PART = part(_ROWS, "north", int(_ROWS.t.min()), EPOCH)
run_of([_PART])
for _sketch in _PART.sketches:
    _sketch.answer(Question("count"))
