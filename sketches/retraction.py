"""What a family says of events that are to go again: rows that take them back, and stretches of time."""

from __future__ import annotations

from typing import Any, ClassVar

from sketches.arrays import Flags, Ints
from sketches.errors import UnanswerableError
from sketches.events import Events


class TakesBack:
    """What every sketch has besides; most families cannot take events back."""

    family: ClassVar[str]
    takes_back: ClassVar[bool] = False
    loses_events: ClassVar[bool] = False  # whether `without` can take events out; always where it is stored in parts

    @classmethod
    def payloads_less(cls, events: Events, bounds: Ints, gone: Flags, **settings: Any) -> list[bytes]:
        """`payloads` of rows of which some are `gone`: these take back what came here, elsewhere, or not yet."""
        raise UnanswerableError(f"the {cls.family} family cannot take events back")
