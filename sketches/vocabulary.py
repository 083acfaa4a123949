"""The words of questions: aggregates, what they are of, what they count, and an example of every decay.

The command line's help lists them, and must not wait for numpy; so this imports nothing.
"""

from __future__ import annotations

from typing import Final

AGGREGATES: Final = (
    "sum",
    "count",
    "mean",
    "variance",
    "stddev",
    "ratio",
    "selectivity",
    "rank",
    "quantile",
    "median",
    "heavy-hitters",
    "frequency",
    "range-sum",
    "range-frequency",
    "correlated-sum",
    "correlated-count",
    "correlated-mean",
    "self-join",
    "inner-product",
)
RATE: Final = "rate"  # a sum or a count per second; it is made by stores, not by sketches
COUNTINGS: Final = ("events", "weight")
MEASURES: Final = ("weight", "value")
EVENTS: Final = "events"  # what a ratio or a rate may be of besides: each event is one

# By the name of the decay, which is what stands before the colon.
EXAMPLES: Final = {
    "none": "none",
    "window": "window:1h",
    "last": "last:10000",
    "exp": "exp:half_life=30m",
    "poly": "poly:alpha=1.5,unit=1m",
    "power": "power:alpha=1.5,unit=1s",
    "chordal": "chordal:1d",
    "polyexp": "polyexp:k=2,half_life=10m",
    "superexp": "superexp:beta=2,scale=1h",
    "log": "log:unit=1m",
    "finite-exp": "finite-exp:half_life=30m,floor=0.01",
    "table": "table:0=1,10m=0.5,1h=0",
    "expr": "expr:exp(-age/10m)",
}
ONE_SHARE: Final = "answers a quantile at one share at a time; a store answers at several"
NO_RATES: Final = "answers no rates per second: a store does, which knows when its stream began"
