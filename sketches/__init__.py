"""Mergeable sketches of event streams that answer decayed aggregates with error bounds; numpy in, estimates out.

Knows nothing of stores, Spark or dashboards, never reads a clock, and takes all randomness from a seed.
"""

from typing import TYPE_CHECKING

from sketches.lazy import imported_when_used

if TYPE_CHECKING:
    from sketches.countmin.ecm import Ecm
    from sketches.countmin.retractable import Retractable
    from sketches.decay import Decay, DecayClass, parse_decay
    from sketches.digests.exponential import Exponential
    from sketches.digests.histogram import Histogram
    from sketches.digests.qdigest import QDigest
    from sketches.estimate import Estimate, Item, Series
    from sketches.events import Events
    from sketches.kll.kll import Kll
    from sketches.question import Question
    from sketches.sampling.integral import Integral
    from sketches.sampling.sample import Sample
    from sketches.units import TimeUnit
    from sketches.vocabulary import AGGREGATES

__getattr__ = imported_when_used(
    __name__,
    {
        "sketches.countmin.ecm": ["Ecm"],
        "sketches.countmin.retractable": ["Retractable"],
        "sketches.decay": ["Decay", "DecayClass", "parse_decay"],
        "sketches.digests.exponential": ["Exponential"],
        "sketches.digests.histogram": ["Histogram"],
        "sketches.digests.qdigest": ["QDigest"],
        "sketches.estimate": ["Estimate", "Item", "Series"],
        "sketches.events": ["Events"],
        "sketches.kll.kll": ["Kll"],
        "sketches.question": ["Question"],
        "sketches.sampling.integral": ["Integral"],
        "sketches.sampling.sample": ["Sample"],
        "sketches.units": ["TimeUnit"],
        "sketches.vocabulary": ["AGGREGATES"],
    },
)

__all__ = [
    "AGGREGATES",
    "Decay",
    "DecayClass",
    "Ecm",
    "Estimate",
    "Events",
    "Exponential",
    "Histogram",
    "Integral",
    "Item",
    "Kll",
    "QDigest",
    "Question",
    "Retractable",
    "Sample",
    "Series",
    "TimeUnit",
    "parse_decay",
]
