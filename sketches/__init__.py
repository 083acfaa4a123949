"""Mergeable sketches of event streams that answer decayed aggregates with error bounds; numpy in, estimates out.

Knows nothing of stores, Spark or dashboards, never reads a clock, and takes all randomness from a seed.
"""

from sketches.countmin.ecm import Ecm
from sketches.countmin.retractable import Retractable
from sketches.decay import Decay, DecayClass, parse_decay
from sketches.digests.exponential import Exponential
from sketches.digests.histogram import Histogram
from sketches.digests.qdigest import QDigest
from sketches.estimate import Estimate, Item, Series
from sketches.events import Events
from sketches.question import AGGREGATES, Question
from sketches.sampling.integral import Integral
from sketches.sampling.sample import Sample
from sketches.units import TimeUnit

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
    "QDigest",
    "Question",
    "Retractable",
    "Sample",
    "Series",
    "TimeUnit",
    "parse_decay",
]
