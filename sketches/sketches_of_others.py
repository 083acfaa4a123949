"""What a family says that takes in sketches which others have made, as the bytes of the library that made them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from sketches.errors import UnanswerableError
from sketches.events import Kind


class TakenIn:
    """What every sketch has besides; most families take in none."""

    family: ClassVar[str]
    takes_sketches: ClassVar[bool] = False

    @classmethod
    def taken_in(cls, sketches: Sequence[bytes], begin: int, end: int, **settings: Any) -> tuple[bytes, int]:
        """The bytes of a sketch of what these hold, of rows from `begin` to before `end`, and how many rows these are.

        The settings are those of `build`. `CorruptError` where one of them is not what the settings say.
        """
        raise UnanswerableError(f"the {cls.family} family takes no sketches that others have made")

    @classmethod
    def rows_taken_in(cls, data: bytes, **settings: Any) -> int:
        """How many rows such a sketch is of; `CorruptError` where it is none."""
        raise UnanswerableError(f"the {cls.family} family takes no sketches that others have made")

    @classmethod
    def kind_taken_in(cls, **settings: Any) -> Kind:
        """The kind of values of such sketches."""
        raise UnanswerableError(f"the {cls.family} family takes no sketches that others have made")
