"""Every family keeps the promises of `tests.support.conformance`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from sketches import Events, Question, Sample
from sketches.countmin.ecm import Ecm
from sketches.countmin.retractable import Retractable
from sketches.digests.division import Division
from sketches.digests.exponential import Exponential
from sketches.digests.histogram import Histogram
from sketches.digests.qdigest import QDigest
from sketches.digests.wbmh import Wbmh
from sketches.kll.kll import Kll
from sketches.sampling.epoch_sample import EpochSample
from sketches.sampling.integral import Integral
from sketches.units import SECOND, TimeUnit
from tests.support.conformance import Conformance, Family, elsewhere_digests
from tests.support.minutes_family import Minutes
from tests.support.streams import STREAMS

EVERYTHING = (
    Question("sum", "exp:half_life=10m"),
    Question("sum", "window:10m", of="value"),
    Question("count", "poly:alpha=1.5,unit=1m"),
    Question("mean", "window:10m"),
    Question("mean", "none", of="value"),
    Question("selectivity", "chordal:40m", tau=500),
    Question("selectivity", "none", low=100, high=110),
    Question("rank", "exp:half_life=5m", value=250),
    Question("quantile", "superexp:beta=2,scale=20m", phi=0.9),
    Question("median", "window:30m"),
    Question("heavy-hitters", "none", top=3),
    Question("frequency", "log:unit=1m", value=7),
    Question("range-sum", "polyexp:k=2,half_life=5m", low=0, high=20),
    Question("range-frequency", "window:50m", low=990, high=2000),
    Question("correlated-sum", "exp:half_life=10m", tau=990),
    Question("correlated-count", "table:0=1,10m=0.5,1h=0", tau="q0.9"),
    Question("correlated-mean", "window:50m", tau="median"),
    Question("self-join", "exp:half_life=30m"),
)
OF_KEYS = (
    Question("sum", "exp:half_life=10m"),
    Question("count", "window:10m"),
    Question("mean", "none"),
    Question("heavy-hitters", "poly:alpha=1.5,unit=1m", phi=0.05),
    Question("frequency", "exp:half_life=30m", value="日本語"),
    Question("self-join", "window:50m"),
)
FADING = "poly:alpha=1.5,unit=1m"
OF_UNITS = (
    Question("sum", FADING),
    Question("selectivity", FADING, tau=500),
    Question("rank", FADING, value=250),
    Question("quantile", FADING, phi=0.9),
    Question("median", FADING),
    Question("heavy-hitters", FADING, top=3),
    Question("frequency", FADING, value=7),
    Question("range-sum", FADING, low=0, high=20),
    Question("correlated-sum", FADING, tau="median"),
)
OF_UNITS = tuple(replace(question, counting="weight") for question in OF_UNITS)
BY_WEIGHT = partial(Question, counting="weight")
OF_UNITS_OF_KEYS = (
    BY_WEIGHT("sum", FADING),
    BY_WEIGHT("heavy-hitters", FADING),
    BY_WEIGHT("frequency", FADING, value=""),
)

COUNTED = {"duplicate_insensitive": False, "batches_leave_no_trace": False, "merges_leave_no_trace": False}
HALVING = "exp:half_life=10m"
OF_HALVING = tuple(replace(question, decay=HALVING) for question in OF_UNITS)

UNWEIGHTED = tuple(name for name, make in STREAMS.items() if (make(400, 7).w == 1).all())
INTEGERS = tuple(name for name, make in STREAMS.items() if make(50, 7).v.dtype.kind == "i")
OF_COUNTERS = (
    BY_WEIGHT("sum", "exp:half_life=10m"),
    BY_WEIGHT("heavy-hitters", "poly:alpha=1.5,unit=1m", phi=0.05),
    BY_WEIGHT("frequency", "window:30m", value=7),
)


def randomised(events: Events, **settings: Any) -> Ecm:
    """Randomised waves count arrivals."""
    return Ecm.build(replace(events, weights=None), keeping="rw", **settings)


FAMILIES = [
    Family(
        "sample",
        Sample.build,
        {"epsilon": 0.2, "detail": 1, "bits": 48, "unit": SECOND},
        {"bits": 40, "unit": TimeUnit(60, 1)},  # the rest may change while a stream lives
        EVERYTHING,
        OF_KEYS,
    ),
    Family("sample", EpochSample.build, {"epsilon": 0.2}, {"epsilon": 0.3}, EVERYTHING, OF_KEYS, variant="of epochs"),
    Family(
        "integral",
        Integral.build,
        {"epsilon": 0.2, "decay": FADING, "counting": "weight", "scale": 1},
        {"epsilon": 0.3, "decay": "window:1h"},
        OF_UNITS,
        OF_UNITS_OF_KEYS,
        answers_the_past=False,
    ),
    Family(
        "histogram",
        Histogram.build,
        {"epsilon": 0.2, "span": 600},
        {"epsilon": 0.3, "span": 900},
        tuple(one for one in EVERYTHING if one.aggregate in Histogram.abilities.aggregates and not one.of_value),
        tuple(one for one in OF_KEYS if one.aggregate in Histogram.abilities.aggregates),
        random=False,
        **COUNTED,
    ),
    Family(
        "qdigest",
        QDigest.build,
        {"epsilon": 0.2, "span": 600},
        {"epsilon": 0.3, "span": 900},
        tuple(one for one in EVERYTHING if one.aggregate in QDigest.abilities.aggregates and not one.of_value),
        tuple(one for one in OF_KEYS if one.aggregate in QDigest.abilities.aggregates),
        random=False,
        **COUNTED,
    ),
    Family(
        "wbmh",
        Wbmh.build,
        {"epsilon": 0.2, "span": 600, "decay": FADING},
        {"epsilon": 0.3, "span": 900, "decay": "log:unit=1m"},
        tuple(one for one in EVERYTHING if Wbmh.abilities.include(one)),
        random=False,
        **COUNTED,
    ),
    Family(
        "division",
        Division.build,
        {"epsilon": 0.2, "span": 600, "decay": FADING},
        {"epsilon": 0.3, "span": 900, "decay": "log:unit=1m"},
        tuple(one for one in EVERYTHING if Division.abilities.include(one)),
        tuple(one for one in OF_KEYS if Division.abilities.include(one)),
        random=False,
        **COUNTED,
    ),
    Family(
        "per-minute",
        Minutes.build,
        {"step": 600},
        {"step": 900},
        tuple(one for one in EVERYTHING if Minutes.abilities.include(one)),
        tuple(one for one in OF_KEYS if Minutes.abilities.include(one)),
        random=False,
        duplicate_insensitive=False,
    ),
    Family(
        "exponential",
        Exponential.build,
        {"epsilon": 0.2, "decay": HALVING, "counting": "weight"},
        {"epsilon": 0.3, "decay": "exp:half_life=1h"},
        OF_HALVING,
        (BY_WEIGHT("sum", HALVING), BY_WEIGHT("heavy-hitters", HALVING), BY_WEIGHT("frequency", HALVING, value="")),
        random=False,
        answers_the_past=False,
        **COUNTED,
    ),
    Family(
        "retractable",
        Retractable.build,
        {"epsilon": 0.2, "decay": HALVING, "counting": "weight"},
        {"epsilon": 0.3, "decay": "exp:half_life=1h"},
        (BY_WEIGHT("sum", HALVING), BY_WEIGHT("frequency", HALVING, value=7)),
        (BY_WEIGHT("sum", HALVING), BY_WEIGHT("frequency", HALVING, value="")),
        answers_the_past=False,
        **COUNTED,
    ),
    *(
        Family(
            "kll",
            Kll.build,
            {"epsilon": epsilon, "delta": 0.05, "items": "double"},
            {"epsilon": 0.3, "delta": 0.1, "items": "float"},
            tuple(one for one in EVERYTHING if Kll.abilities.include(one) and one.threshold is None),
            (),
            reproducible=reproducible,
            random=False,
            streams=UNWEIGHTED,
            variant=variant,
            **COUNTED,
        )
        for variant, epsilon, reproducible in (("", 0.005, True), ("compacted", 0.2, False))
    ),
    *(
        Family(
            "ecm",
            randomised if keeping == "rw" else partial(Ecm.build, keeping=keeping),
            {"epsilon": 0.3, "delta": 0.2, "counting": "weight"},
            {"epsilon": 0.4, "delta": 0.1},
            OF_COUNTERS if keeping == "rw" else (*OF_COUNTERS, BY_WEIGHT("self-join", "exp:half_life=30m")),
            (*OF_COUNTERS[:2], BY_WEIGHT("frequency", "exp:half_life=30m", value="日本語")),
            random=keeping == "rw",
            streams=UNWEIGHTED if keeping == "rw" else tuple(STREAMS),
            variant=keeping,
            **COUNTED,
        )
        for keeping in (
            "eh",
            "rw",
        )  # "dw" has the code of "eh"; tests/sketches/countmin/test_window_logs.py tells them apart
    ),
    Family(
        "ecm",
        partial(Ecm.build, bits=4),
        {"epsilon": 0.3, "delta": 0.2, "counting": "weight"},
        {"epsilon": 0.4, "delta": 0.1},
        tuple(
            replace(one, counting="weight")
            for one in EVERYTHING
            if one.aggregate in Ecm.abilities.aggregates and not one.of_value
        ),
        (),
        random=False,
        streams=INTEGERS,
        variant="ranges",
        **COUNTED,
    ),
]


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda family: family.title)
def family(request: pytest.FixtureRequest) -> Family:
    joined: Family = request.param
    return joined


@pytest.fixture(scope="module")
def elsewhere() -> list[dict[str, str]]:
    return elsewhere_digests(__name__)


class TestConformance(Conformance):
    """All promises, for every family of the list."""
