"""Counting a batch of events: from columns to the logs of every counter, and the values that were ever heavy."""

from __future__ import annotations

import numpy as np

from sketches.arrays import Ints, Words
from sketches.compiled import njit
from sketches.countmin.counter_places import place_of, places_of
from sketches.countmin.ecm_parameters import EcmParameters
from sketches.countmin.randomised_waves import LEVELS, Waves, apart, capacity, levels_of
from sketches.countmin.window_logs import Logs, laid_out, refuse_more, room, sizes_of
from sketches.errors import EventError
from sketches.events import Events, Kind
from sketches.hashing import event_hashes, finalise_one, salt


def count_logs(times: Ints, codes: Words, weights: Ints, kind: Kind, parameters: EcmParameters) -> Logs:
    """Exponential histograms or deterministic waves of events in the order of their times."""
    cells = parameters.cells(kind)
    if len(times) == 0:
        return Logs.none(cells)
    refuse_more(float(weights.sum(dtype=np.float64)))
    shape = (parameters.levels(kind), parameters.rows, parameters.width)
    totals = _totals(codes, weights, parameters.salts, *shape)
    bounds, ranks = laid_out(totals, room(parameters.window_error), parameters.keeping == "eh")
    ends, oldest = _ends(times, codes, weights, parameters.salts, *shape, bounds, ranks)
    return Logs.in_order(bounds, ends, sizes_of(bounds, ranks), oldest)


def count_waves(events: Events, times: Ints, codes: Words, parameters: EcmParameters) -> Waves:
    """Randomised waves: which arrivals are at which level depends on the event's hash, and which copy of it it is."""
    if events.weights is not None:
        raise EventError("randomised waves count arrivals, so weights must be 1; keep 'eh' or 'dw' counts weights")
    cells, kind = parameters.cells(events.kind), events.kind
    if len(times) == 0:
        return Waves.none(cells)
    ids, clock, values, _ = events.columns()
    words = values.astype(np.int64).view(np.uint64) if values.dtype == np.int32 else values
    ones = np.ones(len(ids), np.uint64)
    hashes = event_hashes(ids, clock.view(np.uint64), words, ones, np.uint64(salt(parameters.seed, LEVELS)))
    level = levels_of(apart(hashes))
    most = capacity(parameters.window_error, parameters.delta / 2.0)
    parts = [Waves.of(np.full(len(times), cells - 1), times, level, cells, most)]
    for dyadic in range(parameters.levels(kind)):
        salts = parameters.salts[dyadic * parameters.rows : (dyadic + 1) * parameters.rows]
        places = places_of(_prefixes(codes, dyadic), salts, parameters.width, dyadic * parameters.rows)
        parts.extend(Waves.of(places[:, row], times, level, cells, most) for row in range(parameters.rows))
    return Waves.merged(parts, most)


@njit(cache=True, nogil=True, inline="always")
def _at_level(code: np.uint64, level: int) -> np.uint64:
    """The code itself at level 0; above, the prefix of a number of the domain."""
    if level == 0:
        return code
    return (code - (np.uint64(1) << np.uint64(63))) >> np.uint64(level)


@njit(cache=True, nogil=True)
def _prefixes(codes: Words, level: int) -> Words:
    """`_at_level` of many codes."""
    found = np.empty_like(codes)
    for at in range(len(codes)):
        found[at] = _at_level(codes[at], level)
    return found


@njit(cache=True, nogil=True)
def _totals(codes: Words, weights: Ints, salts: Words, levels: int, rows: int, width: int) -> Ints:
    """How many arrivals each counter gets; the last one gets all."""
    totals = np.zeros(levels * rows * width + 1, np.int64)
    for at in range(len(codes)):
        weight = weights[at] if len(weights) else 1
        totals[-1] += weight
        for level in range(levels):
            code = _at_level(codes[at], level)
            for row in range(level * rows, (level + 1) * rows):
                totals[row * width + place_of(code, salts[row], width)] += weight
    return totals


@njit(cache=True, nogil=True)
def _ends(
    times: Ints,
    codes: Words,
    weights: Ints,
    salts: Words,
    levels: int,
    rows: int,
    width: int,
    bounds: Ints,
    ranks: Ints,
) -> tuple[Ints, Ints]:
    """The times of the kept ranks, and of the first arrival, of each counter; events come in order of time."""
    cells = len(bounds) - 1
    ends, oldest = np.empty(len(ranks), np.int64), np.zeros(cells, np.int64)
    seen, entry = np.zeros(cells, np.int64), bounds[:-1].copy()
    for at in range(len(codes)):
        weight = weights[at] if len(weights) else 1
        for level in range(levels + 1):
            code = codes[at] if level == levels else _at_level(codes[at], level)
            for row in range(level * rows, (level + 1) * rows if level < levels else level * rows + 1):
                cell = cells - 1 if level == levels else row * width + place_of(code, salts[row], width)
                if seen[cell] == 0:
                    oldest[cell] = times[at]
                seen[cell] += weight
                while entry[cell] < bounds[cell + 1] and ranks[entry[cell]] <= seen[cell]:
                    ends[entry[cell]] = times[at]
                    entry[cell] += 1
    return ends, oldest


@njit(cache=True, nogil=True)
def heavy_rows(codes: Words, weights: Ints, epsilon: float) -> Ints:
    """One row of each value whose share of some suffix is at least ε: counted from the newest event on."""
    bits = 4
    while (1 << bits) < 2 * len(codes):
        bits += 1
    mask = np.uint64((1 << bits) - 1)
    rows, sums = np.full(1 << bits, -1, np.int64), np.zeros(1 << bits, np.int64)
    found, made = np.empty(len(codes), np.int64), 0
    total = 0
    for at in range(len(codes) - 1, -1, -1):
        weight = weights[at] if len(weights) else 1
        total += weight
        place = finalise_one(codes[at]) & mask
        while rows[place] >= 0 and codes[rows[place]] != codes[at]:
            place = (place + np.uint64(1)) & mask
        if rows[place] < 0:
            rows[place] = at
        before = sums[place]
        if before < 0:
            continue  # known to be heavy
        sums[place] = before + weight
        if sums[place] >= epsilon * total:
            found[made] = rows[place]
            made += 1
            sums[place] = -1
    return found[:made]
