"""How answers cite the papers behind them; `docs/references.md` has titles, links, and what is implemented where."""

from __future__ import annotations

from typing import Final

SENSOR_SKETCHES: Final = "Cormode, Tirthapura and Xu 2007"  # paper A
CORRELATED_AGGREGATES: Final = "Cormode, Tirthapura and Xu 2009"  # paper B
OUT_OF_ORDER_STREAMS: Final = "Cormode, Korn and Tirthapura 2008"  # paper C
ASYNCHRONOUS_STREAMS: Final = "Busch and Tirthapura 2007"  # paper D
ECM_SKETCHES: Final = "Papapetrou, Garofalakis and Deligiannakis 2012"  # paper E
