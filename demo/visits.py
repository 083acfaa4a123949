"""Generated requests to a website, an example for keys: which page was asked for, and how long the answer took.

Three sites answer, each with its own visitors. A few pages have most of the requests. A new page is read by many in the
last hours; one night a robot looks for a page that does not exist; and one site becomes slow after a new version.
Every request has one row: none comes twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from demo.arrivals import arrival_files
from sketches.arrays import Flags, Ints
from sketches.errors import WaneError


@dataclass(frozen=True, slots=True)
class Spell:
    """Something that happened at a site within [begin, end), in seconds since 1970; an empty site: at all of them."""

    site: str
    begin: int
    end: int


@dataclass(frozen=True, eq=False, slots=True)
class Visits:
    """Columns in order of arrival, one row a request. `at` is seconds since 1970, in [begin, end)."""

    request_id: Ints
    site: NDArray[np.str_]
    at: Ints
    page: NDArray[np.str_]
    method: NDArray[np.str_]
    status: Ints
    latency_ms: Ints
    arrived: Ints
    begin: int
    end: int
    launch: Spell
    robot: Spell
    slow: Spell


SITES: Final = ("europe", "america", "asia")
LAUNCHED: Final = "/blog/2026/how-we-let-the-past-fade-without-keeping-it"
SOUGHT: Final = "/wp-login.php"

SCHEMA: Final = pa.schema(
    {
        "request_id": pa.int64(),
        "site": pa.string(),
        "at": pa.int64(),
        "page": pa.string(),
        "method": pa.string(),
        "status": pa.int64(),
        "latency_ms": pa.int64(),
    }
)

_SHARES: Final = (0.45, 0.35, 0.20)
_OFFSETS_H: Final = (1, -6, 8)  # of their clocks
_HOUR: Final = 3600
_DAY: Final = 24 * _HOUR
_PAGES: Final = 400  # shop pages, of which the k-th is asked for 1/k^1.1 as often as the first
_READ: Final = 0.12  # of the requests since its launch are for the new page
_SEEKING: Final = 0.35  # of the requests of one site are a robot's while it is there
_SLOWER: Final = 2.5
_FAMOUS: Final = ("/", "/search", "/basket", "/api/v1/prices", "/login", "/help/returns-and-refunds")


def generate(requests: int = 200_000, *, days: int = 3, seed: int, end: int) -> Visits:
    """So many requests within the days before `end` (seconds since 1970).

    >>> data = generate(10_000, days=1, seed=1, end=1_767_225_600)
    >>> len(np.unique(data.request_id)), len(np.unique(data.page)) > 200
    (10000, True)
    """
    for name, value in (("requests", requests), ("days", days)):
        if value < 1:
            raise WaneError(f"{name} is {value}; it must be at least 1")
    rng = np.random.default_rng([seed, 2])
    span = days * _DAY
    begin = end - span
    launch = Spell("", end - min(10 * _HOUR, span // 6), end)
    over = begin + span // 3
    robot = Spell("america", over - min(_HOUR, span // 24), over)
    slow = Spell("asia", begin + span * 2 // 3, begin + span * 5 // 6)

    place, at = _times(rng, requests, begin, span)
    page = _page_names()[_pages(rng, place)]
    page[_within(launch, place, at) & (rng.random(requests) < _READ)] = LAUNCHED
    seeking = _within(robot, place, at) & (rng.random(requests) < _SEEKING)
    page[seeking] = SOUGHT
    latency = rng.lognormal(np.log(np.array([45.0, 60.0, 80.0])[place]), 0.7)
    latency[np.strings.startswith(page, "/search")] *= 3.0
    latency[_within(slow, place, at)] *= _SLOWER
    lost = rng.random(requests)
    status = np.where(seeking, 404, np.where(lost < 0.002, 503, np.where(lost < 0.02, 404, 200)))
    status[(page == "/login") & (lost > 0.9)] = 403
    asks = np.strings.startswith(page, "/login") | np.strings.startswith(page, "/basket") | seeking
    method = np.where(asks & (rng.random(requests) < 0.6), "POST", "GET")
    waited = np.ceil(rng.exponential(5.0, requests)).astype(np.int64)
    order = np.argsort(at + waited, kind="stable")
    return Visits(
        request_id=(5_000_000_000 + np.arange(requests))[order],
        site=np.array(SITES)[place[order]],
        at=at[order],
        page=page[order],
        method=method[order],
        status=status.astype(np.int64)[order],
        latency_ms=np.maximum(np.rint(latency), 1).astype(np.int64)[order],
        arrived=(at + waited)[order],
        begin=begin,
        end=end,
        launch=launch,
        robot=robot,
        slow=slow,
    )


def files(data: Visits, count: int) -> list[tuple[str, pa.Table]]:
    """The rows as files, in the order of their arrival."""
    table = pa.table([pa.array(getattr(data, field.name), field.type) for field in SCHEMA], schema=SCHEMA)
    return arrival_files("visits", table, data.arrived, data.begin, data.end, count)


def _within(spell: Spell, place: Ints, at: Ints) -> Flags:
    there: Flags = (at >= spell.begin) & (at < spell.end)
    return there & (place == SITES.index(spell.site)) if spell.site else there


def _times(rng: np.random.Generator, requests: int, begin: int, span: int) -> tuple[Ints, Ints]:
    """Site and time of each request, in order of time: people sleep at night, each site's by its own clock."""
    minutes = begin + np.arange(0, span, 60)
    local = (minutes + _HOUR * np.array(_OFFSETS_H)[:, None]) % _DAY / _DAY
    volume = (1.15 - np.cos(2 * np.pi * (local - 0.1))) * np.array(_SHARES)[:, None]
    cell = np.repeat(np.arange(volume.size), rng.multinomial(requests, volume.ravel() / volume.sum()))
    place, minute = np.divmod(cell, len(minutes))
    at = minutes[minute] + rng.integers(0, 60, requests)
    order = np.argsort(at, kind="stable")
    return place[order], at[order]


def _page_names() -> NDArray[np.str_]:
    things = np.array(["lamps", "chairs", "garden-furniture-and-outdoor-kitchens", "rugs", "shelves"])
    number = np.arange(_PAGES - len(_FAMOUS))
    shop = np.strings.add(np.strings.add("/shop/", things[number % len(things)]), "/")
    names = np.concatenate([_FAMOUS, np.strings.add(shop, number.astype(np.str_))])
    return names.astype(f"<U{max(names.dtype.itemsize // 4, len(LAUNCHED))}")


def _pages(rng: np.random.Generator, place: Ints) -> Ints:
    """Which page each request is for. Beyond the famous pages each site has favourites of its own."""
    share = np.arange(1.0, _PAGES + 1) ** -1.1
    rank = np.searchsorted(np.cumsum(share / share.sum()), rng.random(len(place))).clip(0, _PAGES - 1)
    own = len(_FAMOUS) + (rank - len(_FAMOUS) + 7 * place) % (_PAGES - len(_FAMOUS))
    return np.where(rank < len(_FAMOUS), rank, own)
