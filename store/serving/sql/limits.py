"""How long a statement may be: known to those, too, who only describe the language and load no parser."""

from typing import Final

LONGEST: Final = 10_000  # characters
