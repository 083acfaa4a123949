"""How long a statement may be, and how much of an answer is found: known to those, too, who load no parser."""

import math
from typing import Final, NamedTuple

LONGEST: Final = 10_000  # characters


class Limits(NamedTuple):
    """How much of an answer may be found: numbers in all its rows and columns, and seconds until the last aggregate is
    begun."""

    cells: float = math.inf
    seconds: float = math.inf
