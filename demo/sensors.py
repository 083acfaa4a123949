"""Generated readings of a sensor network in which a reading takes several paths.

Sensors on a plane broadcast their temperature. Every gateway near enough to hear a reading forwards it, over its own
path with its own delay. So one reading arrives several times, from several reporters, and out of order. All reports of
a reading agree. Over all reporters every reading must count once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from demo.arrivals import arrival_files
from sketches.arrays import Floats, Ints
from sketches.errors import WaneError


@dataclass(frozen=True, slots=True)
class HeatEvent:
    """A local fire: these sensors are near it and read up to 25 degrees more between begin and end."""

    sensors: tuple[str, ...]
    begin: int  # milliseconds since 1970
    end: int


@dataclass(frozen=True, slots=True)
class Drift:
    """A broken sensor: its reading rises from begin on, and is 30 degrees too high at the end of the data."""

    sensor: str
    begin: int  # milliseconds since 1970


@dataclass(frozen=True, slots=True)
class Outage:
    """A gateway without its uplink: reports that were due in [begin, end) arrive in one batch when the link is back."""

    reporter: str
    begin: int  # milliseconds since 1970
    end: int


@dataclass(frozen=True, eq=False, slots=True)
class Readings:
    """Columns in order of arrival, one row a report. Times are milliseconds since 1970, `at` lies in [begin, end)."""

    reading_id: NDArray[np.str_]
    sensor: NDArray[np.str_]
    reporter: NDArray[np.str_]
    at: Ints
    tenths: Ints  # of a degree
    arrived: Ints
    begin: int
    end: int
    heat: HeatEvent
    drift: Drift
    outage: Outage


SCHEMA: Final = pa.schema(
    {
        "reading_id": pa.string(),
        "sensor": pa.string(),
        "reporter": pa.string(),
        "at": pa.int64(),
        "tenths": pa.int64(),
    }
)

_DAY: Final = 86_400_000
_HOUR: Final = 3_600_000
_REACH: Final = 1.1  # of a broadcast, in spacings of the gateways: a dozen of them give 2.5 reports a reading
_HEAT: Final = (0.55, 0.35, 0.16)  # centre and radius, on a plane of side 1
_PEAK: Final = 250.0  # tenths, at the centre
_DRIFT: Final = 300.0  # tenths, at the end
_HOP: Final = 800.0  # milliseconds, on average
_SLEEP: Final = 300_000  # every fourth gateway saves power and wakes up this often to forward what it heard
_DRAIN: Final = 60_000  # milliseconds in which a gateway forwards what an outage held back


def generate(
    readings: int = 150_000, *, sensors: int = 120, gateways: int = 12, days: int = 3, seed: int, end: int
) -> Readings:
    """The reports of so many readings, made at even intervals within the days before `end` (seconds since 1970).

    >>> data = generate(10_000, days=1, seed=1, end=1_767_225_600)
    >>> len(np.unique(data.reading_id)), len(data.reading_id) > 20_000
    (10000, True)
    """
    for name, value, least in (("readings", readings, 1), ("sensors", sensors, 2), ("gateways", gateways, 1)):
        if value < least:
            raise WaneError(f"{name} is {value}; it must be at least {least}")
    if days < 1:
        raise WaneError(f"days is {days}; it must be at least 1")
    rng = np.random.default_rng(seed)
    finish = end * 1000
    begin = finish - days * _DAY
    plane = rng.random((sensors, 2))
    posts = _spread(gateways)
    sensor_names = _names("s", sensors, 3)
    reporter_names = _names("g", gateways, 2)

    sensor, turn = np.arange(readings) % sensors, np.arange(readings) // sensors
    every = days * _DAY / -(-readings // sensors)
    phase = rng.random(sensors)[sensor] * 0.9 + rng.random(readings) * 0.1
    at = begin + ((turn + phase) * every).astype(np.int64)

    from_centre = np.hypot(*(plane - _HEAT[:2]).T)
    near = from_centre <= max(_HEAT[2], from_centre.min())
    over = begin + int(0.97 * (finish - begin))
    heat = HeatEvent(tuple(sensor_names[near].tolist()), over - min(5 * _HOUR, (finish - begin) // 8), over)
    broken = int(from_centre.argmax())
    drift = Drift(str(sensor_names[broken]), begin + (finish - begin) * 2 // 3)
    tenths = _climate(rng, plane, sensor, at)
    tenths += _PEAK * np.exp(-((from_centre / _HEAT[2]) ** 2))[sensor] * _blaze(heat, at)
    tenths += _DRIFT * (sensor == broken) * np.clip((at - drift.begin) / (finish - drift.begin), 0.0, None)

    reading, gateway = _heard(rng, np.hypot(*(plane[:, None] - posts).transpose(2, 0, 1)), sensor, gateways)
    hops = 1 + np.hypot(*posts.T) * np.sqrt(gateways)  # the base station is at a corner of the plane
    outage = _outage(str(reporter_names[hops.argmax()]), begin, finish)
    sent = at[reading] + np.ceil(rng.gamma(hops[gateway], _HOP)).astype(np.int64)
    arrived = _received(sent, gateway, int(hops.argmax()), outage)

    order = np.argsort(arrived, kind="stable")
    reading, gateway = reading[order], gateway[order]
    serial = np.strings.zfill(turn.astype(np.str_), 6)
    ids = np.strings.add(np.strings.add(sensor_names[sensor], "-"), serial)
    return Readings(
        reading_id=ids[reading],
        sensor=sensor_names[sensor[reading]],
        reporter=reporter_names[gateway],
        at=at[reading],
        tenths=np.rint(tenths).astype(np.int64)[reading],
        arrived=arrived[order],
        begin=begin,
        end=finish,
        heat=heat,
        drift=drift,
        outage=outage,
    )


def files(data: Readings, count: int) -> list[tuple[str, pa.Table]]:
    """The reports as files, in the order of their arrival."""
    table = pa.table([pa.array(getattr(data, field.name), field.type) for field in SCHEMA], schema=SCHEMA)
    return arrival_files("sensors", table, data.arrived, data.begin, data.end, count)


def _names(letter: str, count: int, digits: int) -> NDArray[np.str_]:
    return np.strings.add(letter, np.strings.zfill(np.arange(1, count + 1).astype(np.str_), digits))


def _spread(count: int) -> Floats:
    """Points spread evenly over the plane, for any count: the additive sequence of the plastic number."""
    points: Floats = 0.5 + np.arange(1, count + 1)[:, None] * np.array([0.7548776662, 0.5698402910])
    return points % 1.0


def _climate(rng: np.random.Generator, plane: Floats, sensor: Ints, at: Ints) -> Floats:
    """Tenths of a degree without a fire: warmer in the valley and at three in the afternoon; weather; a bias."""
    day = 2 * np.pi * (at / _DAY)
    weather = 25.0 * np.sin(day / 2.7 + rng.uniform(0.0, 2 * np.pi))
    bias = rng.normal(0.0, 3.0, len(plane))
    usual = 160.0 + 20.0 * plane[:, 0] + bias
    return usual[sensor] + 55.0 * np.cos(day - 2 * np.pi * 15 / 24) + weather + rng.normal(0.0, 2.0, len(at))


def _blaze(heat: HeatEvent, at: Ints) -> Floats:
    """How strong the fire is, from 0 to 1: it grows in the first sixth of its time and dies down in the last third."""
    gone = (at - heat.begin) / (heat.end - heat.begin)
    return np.clip(np.minimum(6.0 * gone, 3.0 * (1.0 - gone)), 0.0, 1.0)


def _heard(rng: np.random.Generator, distance: Floats, sensor: Ints, gateways: int) -> tuple[Ints, Ints]:
    """Pairs of reading and gateway. The nearer a gateway, the likelier it hears; the nearest hears if no other does."""
    audible = np.exp(-((distance * np.sqrt(gateways) / _REACH) ** 4))
    heard = rng.random((len(sensor), gateways)) < audible[sensor]
    lost = np.flatnonzero(~heard.any(axis=1))
    heard[lost, distance.argmin(axis=1)[sensor[lost]]] = True
    reading, gateway = np.nonzero(heard)
    return reading, gateway


def _outage(reporter: str, begin: int, end: int) -> Outage:
    over = begin + int(0.8 * (end - begin))
    return Outage(reporter, over - min(4 * _HOUR, (end - begin) // 12), over)


def _received(sent: Ints, gateway: Ints, down: int, outage: Outage) -> Ints:
    """When the base station has a report. Gateways that sleep forward in batches; one without its uplink waits."""
    arrived = np.where(gateway % 4 == 3, -(-sent // _SLEEP) * _SLEEP, sent)
    held = (gateway == down) & (arrived >= outage.begin) & (arrived < outage.end)
    queued = (arrived[held] - outage.begin) * _DRAIN // (outage.end - outage.begin)
    arrived[held] = outage.end + queued
    return arrived
