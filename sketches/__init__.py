"""Mergeable sketches of event streams that answer decayed aggregates with error bounds; numpy in, estimates out.

Knows nothing of stores, Spark or dashboards, never reads a clock, and takes all randomness from a seed.
"""

from sketches.decay import Decay, DecayClass, parse_decay
from sketches.drawn import TimeUnit
from sketches.ecm import Ecm
from sketches.estimate import Estimate, Item, Series
from sketches.events import Events
from sketches.exponential import Exponential
from sketches.histogram import Histogram
from sketches.integral import Integral
from sketches.qdigest import QDigest
from sketches.question import AGGREGATES, Question
from sketches.retractable import Retractable
from sketches.sample import Sample

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
