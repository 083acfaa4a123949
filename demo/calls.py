"""Generated VoIP call records, an example for correlated aggregates: the value is the duration, the weight the loss.

A carrier serves regions of different size in different time zones. Packet loss follows the load of the hour, and bad
lines make people hang up, so loss and duration are correlated. Device, codec and error code come with each call.
Records arrive when the call has ended, some of them
hours late, some twice, a few broken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from demo.arrivals import arrival_files
from sketches.arrays import Ints
from sketches.errors import WaneError


@dataclass(frozen=True, slots=True)
class Region:
    """A region's share of all calls, its clock, its usual loss per ten thousand, and how often it uploads records."""

    name: str
    share: float
    utc_offset_h: int
    loss: float
    upload_every_s: int = 1


@dataclass(frozen=True, slots=True)
class Incident:
    """A bad line: calls that start in [begin, end) lose `factor` times as many packets; callers hang up and redial."""

    region: str
    begin: int  # seconds since 1970
    end: int
    factor: float


@dataclass(frozen=True, slots=True)
class Outage:
    """A collector that is down: records that were due in [begin, end) arrive in one batch when it is up again."""

    region: str
    begin: int  # seconds since 1970
    end: int


@dataclass(frozen=True, eq=False, slots=True)
class Calls:
    """Columns in order of arrival; a record may arrive twice. Times are seconds since 1970, starts lie in [begin, end).

    Broken records hold NO_TIME, OVERFLOWN, an empty region or a negative loss; `fault` says which, and is "" elsewhere.
    """

    call_id: Ints
    region: NDArray[np.str_]
    started_at: Ints
    duration_s: Ints
    loss: Ints  # packets lost per ten thousand
    device: NDArray[np.str_]
    codec: NDArray[np.str_]
    error_code: Ints  # 0 for a call that ended well
    arrived: Ints
    fault: NDArray[np.str_]
    begin: int
    end: int
    incidents: tuple[Incident, ...]
    outages: tuple[Outage, ...]


_PLACES: Final = (
    Region("north", 0.34, -6, 22.0),
    Region("south", 0.27, -6, 30.0),
    Region("east", 0.21, -5, 18.0),
    Region("west", 0.14, -8, 26.0),
    Region("islands", 0.04, -10, 55.0, upload_every_s=1800),
)
REGIONS: Final = tuple(place.name for place in _PLACES)

# When each ends, as a share of the whole span, and how many hours it lasts (at most a twelfth of the span).
_INCIDENTS: Final = (("east", 0.30, 5, 6.0), ("north", 0.64, 3, 5.0), ("south", 0.98, 2, 9.0))
_OUTAGES: Final = (("west", 0.65, 6), ("islands", 0.95, 4))

# Calls by local hour, from midnight: quiet nights, a busy morning, a second peak in the evening.
_RHYTHM: Final = np.array(
    [8, 5, 3, 2, 2, 4, 12, 30, 58, 84, 98, 100, 88, 80, 86, 88, 84, 80, 82, 86, 74, 52, 30, 16], np.float64
)
_WEEKEND: Final = 0.7
_REDIALS: Final = 1.25
_DEVICES: Final = ("mobile", "desk phone", "softphone", "conference room")
_USED: Final = (0.55, 0.25, 0.17, 0.03)
_CODECS: Final = ("opus", "g711", "g729")
_SPOKEN: Final = ((0.80, 0.05, 0.15), (0.10, 0.70, 0.20), (0.90, 0.10, 0.0), (0.60, 0.40, 0.0))  # by device
_ERRORS: Final = (408, 480, 503)  # timed out, not reached, service unavailable: the last where lines are bad
_LONGEST: Final = 6 * 3600  # the switch ends a call then
_DRAIN: Final = 300  # seconds in which a collector uploads what an outage held back
_REPEATED: Final = 0.03
_BROKEN: Final = 1 / 5000

NO_TIME: Final = int(np.iinfo(np.int64).min)  # numpy's NaT, Arrow's null
OVERFLOWN: Final = 2**32 - 1  # a 32-bit clock with all bits set: February 2106
FAULTS: Final = ("no time", "no region", "negative loss", "clock in 2106")

SCHEMA: Final = pa.schema(
    {
        "call_id": pa.int64(),
        "region": pa.string(),
        "started_at": pa.timestamp("us", tz="UTC"),
        "duration_s": pa.int64(),
        "loss": pa.int64(),
        "device": pa.string(),
        "codec": pa.string(),
        "error_code": pa.int64(),
    }
)


def generate(calls: int = 400_000, *, days: int = 3, seed: int, end: int) -> Calls:
    """The records of so many calls that start within the days before `end` (seconds since 1970).

    3% of them arrive twice and 1 in 5,000 is broken.

    >>> data = generate(10_000, days=1, seed=1, end=1_767_225_600)
    >>> len(data.call_id), [incident.region for incident in data.incidents]
    (10300, ['east', 'north', 'south'])
    """
    for name, value in (("calls", calls), ("days", days)):
        if value < 1:
            raise WaneError(f"{name} is {value}; it must be at least 1")
    rng = np.random.default_rng(seed)
    span = days * 86_400
    begin = end - span
    incidents = tuple(
        Incident(where, *_spell(begin, span, ends, hours), factor) for where, ends, hours, factor in _INCIDENTS
    )
    outages = tuple(Outage(where, *_spell(begin, span, ends, hours)) for where, ends, hours in _OUTAGES)

    place, started, load = _starts(rng, calls, begin, span, incidents)
    expected = np.array([region.loss for region in _PLACES])[place] * (0.5 + 1.5 * load**2)
    for incident in incidents:
        expected[_hit(incident, place, started)] *= incident.factor
    loss = np.clip(np.rint(rng.gamma(2.0, expected / 2.0)), 0, 10_000)
    duration = _durations(rng, loss)
    device, codec, error_code = _equipment(np.random.default_rng([seed, 1]), loss)

    sent = started + duration + np.ceil(rng.exponential(8.0, calls)).astype(np.int64)
    arrived = _received(sent, place, outages)
    again = rng.choice(calls, round(_REPEATED * calls), replace=False)
    waited = 60 + np.ceil(rng.exponential(1200.0, len(again))).astype(np.int64)
    repeated = _received(arrived[again] + waited, place[again], outages)

    region, started, loss, fault = _broken(rng, np.array(REGIONS)[place], started, loss.astype(np.int64))
    arrivals = np.concatenate([arrived, repeated])
    order = np.argsort(arrivals, kind="stable")
    rows = np.concatenate([np.arange(calls), again])[order]
    return Calls(
        call_id=1_000_000_000 + rows,
        region=region[rows],
        started_at=started[rows],
        duration_s=duration[rows],
        loss=loss[rows],
        device=device[rows],
        codec=codec[rows],
        error_code=error_code[rows],
        arrived=arrivals[order],
        fault=fault[rows],
        begin=begin,
        end=end,
        incidents=incidents,
        outages=outages,
    )


def files(data: Calls, count: int) -> list[tuple[str, pa.Table]]:
    """The rows as files, in the order of their arrival."""
    columns = {
        "call_id": pa.array(data.call_id),
        "region": pa.array(data.region, pa.string(), mask=data.region == ""),
        "started_at": pa.array(data.started_at.astype("datetime64[s]")).cast(pa.timestamp("us")),
        "duration_s": pa.array(data.duration_s),
        "loss": pa.array(data.loss),
        "device": pa.array(data.device),
        "codec": pa.array(data.codec),
        "error_code": pa.array(data.error_code),
    }
    return arrival_files("calls", pa.table(columns).cast(SCHEMA), data.arrived, data.begin, data.end, count)


def _spell(begin: int, span: int, ends: float, hours: int) -> tuple[int, int]:
    """The begin and end of an incident or outage, on whole minutes of the span."""
    over = begin + int(ends * span) // 60 * 60
    return over - min(hours * 3600, span // 12), over


def _hit(incident: Incident, place: Ints, started: Ints) -> NDArray[np.bool_]:
    here: NDArray[np.bool_] = place == REGIONS.index(incident.region)
    return here & (started >= incident.begin) & (started < incident.end)


def _starts(
    rng: np.random.Generator, calls: int, begin: int, span: int, incidents: tuple[Incident, ...]
) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Place, start and load of each call in order of start: one draw of how many fall into each region and minute."""
    minutes = begin + np.arange(0, span, 60)
    local = minutes + 3600 * np.array([[region.utc_offset_h] for region in _PLACES])
    load = np.interp(local % 86_400 / 3600, np.arange(25), np.append(_RHYTHM, _RHYTHM[0]) / _RHYTHM.max())
    monday_first = (local // 86_400 + 3) % 7  # 1970 began on a Thursday
    load[monday_first >= 5] *= _WEEKEND
    volume = load * np.array([[region.share] for region in _PLACES])
    for incident in incidents:
        volume[REGIONS.index(incident.region), (minutes >= incident.begin) & (minutes < incident.end)] *= _REDIALS
    cell = np.repeat(np.arange(volume.size), rng.multinomial(calls, volume.ravel() / volume.sum()))
    started = minutes[cell % len(minutes)] + rng.integers(0, 60, calls)
    order = np.argsort(started, kind="stable")
    cell = cell[order]
    return cell // len(minutes), started[order], load.ravel()[cell]


def _durations(rng: np.random.Generator, loss: NDArray[np.float64]) -> Ints:
    """Seconds until people have finished talking, or until a bad line makes them hang up."""
    calls = len(loss)
    wanted = rng.lognormal(4.7, 1.2, calls)
    conference = rng.random(calls) < 0.04
    wanted[conference] = 1200.0 * (1.0 + rng.pareto(1.5, int(conference.sum())))
    patience = rng.exponential(600.0 * (200.0 / np.maximum(loss, 1.0)) ** 1.5)
    return np.clip(np.ceil(np.minimum(wanted, patience)), 1, _LONGEST).astype(np.int64)


def _equipment(rng: np.random.Generator, loss: NDArray[np.float64]) -> tuple[NDArray[np.str_], NDArray[np.str_], Ints]:
    """Device, codec and error code of each call: mobiles are on most of the bad lines, and bad lines end in errors."""
    calls = len(loss)
    bad = np.minimum(loss / 400.0, 1.0)
    device = np.searchsorted(np.cumsum(_USED), rng.random(calls) * (1.0 - 0.4 * bad)).clip(0, len(_DEVICES) - 1)
    codec = (rng.random(calls)[:, None] > np.cumsum(_SPOKEN, axis=1)[device, :-1]).sum(axis=1)
    failed = rng.random(calls) < 0.004 + 0.25 * bad**2
    kind = np.where(rng.random(calls) < bad, 2, rng.integers(0, 2, calls))
    error = np.where(failed, np.array(_ERRORS)[kind], 0).astype(np.int64)
    return np.array(_DEVICES)[device], np.array(_CODECS)[codec], error


def _received(sent: Ints, place: Ints, outages: tuple[Outage, ...]) -> Ints:
    """When the centre has a record. Each region uploads at its own interval, and not while its collector is down."""
    every = np.array([region.upload_every_s for region in _PLACES])[place]
    arrived: Ints = -(-sent // every) * every  # rounded up
    for outage in outages:
        held = (place == REGIONS.index(outage.region)) & (arrived >= outage.begin) & (arrived < outage.end)
        queued = (arrived[held] - outage.begin) * _DRAIN // (outage.end - outage.begin)
        arrived[held] = outage.end + queued
    return arrived


def _broken(
    rng: np.random.Generator, region: NDArray[np.str_], started: Ints, loss: Ints
) -> tuple[NDArray[np.str_], Ints, Ints, NDArray[np.str_]]:
    """The columns with some records broken, each fault equally often, and the fault of every record."""
    started = started.copy()  # the caller still needs the true times
    victims = rng.choice(len(region), round(_BROKEN * len(region)), replace=False)
    fault = np.full(len(region), "", f"<U{max(map(len, FAULTS))}")
    fault[victims] = np.array(FAULTS)[np.arange(len(victims)) % len(FAULTS)]
    started[fault == "no time"] = NO_TIME
    started[fault == "clock in 2106"] = OVERFLOWN
    region[fault == "no region"] = ""
    wrong = fault == "negative loss"
    loss[wrong] = -rng.integers(1, 4, int(wrong.sum()))
    return region, started, loss, fault
