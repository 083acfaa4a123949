"""The natural merge sort of `sketches.sampling.inclusion.time_order` against the stable sorts of numpy and numba.

Each of them orders rows by (time, hash); repeated rows are then dropped. The orders are compared before they are timed.
Run it on a quiet machine.

python -m benchmarks.sorting [--rows 100000]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numba import njit

from benchmarks.report import best, publish, table
from sketches.arrays import Ints, Words
from sketches.sampling.inclusion.time_order import drop_repeats, time_order

HOUR = 3600
GROUP_ROWS = (5, 20, 100, 1000, 3000)  # rows of one source in one epoch
FEW_TIES = 24  # rows of one key that are sorted by insertion
REPEATS = 15

Order = Callable[[Ints, Words], Ints]


def by_lexsort(times: Ints, hashes: Words) -> Ints:
    """Two stable sorts."""
    return np.lexsort((hashes, times))


def by_combined_key(times: Ints, hashes: Words) -> Ints:
    """One stable sort of a number that holds the time and the leading bits of the hash, then ties in a kernel."""
    offsets = times.view(np.uint64) - np.uint64(times.min())
    hash_bits = 64 - int(offsets.max()).bit_length()
    keys = (offsets << np.uint64(hash_bits)) | (hashes >> np.uint64(64 - hash_bits))
    order = np.argsort(keys, kind="stable")
    sort_ties(order, keys, hashes)
    return order


@njit(cache=True)
def by_numba(times: Ints, hashes: Words) -> Ints:
    """What a kernel can do without a sort of its own: numba's stable argsort unless times ascend, then ties."""
    ascending = True
    for row in range(1, len(times)):
        if times[row] < times[row - 1]:
            ascending = False
            break
    order = np.arange(len(times)) if ascending else np.argsort(times, kind="mergesort")
    sort_ties(order, times, hashes)
    return order


@njit(cache=True)
def sort_ties(order: Ints, keys: np.ndarray, hashes: Words) -> None:
    """Sort the rows that share a key by hash; `order` is by key."""
    stop = 0
    while stop < len(order):
        start = stop
        stop += 1
        while stop < len(order) and keys[order[stop]] == keys[order[start]]:
            stop += 1
        tied = order[start:stop]
        if len(tied) > FEW_TIES:
            tied[:] = tied[np.argsort(hashes[tied], kind="mergesort")]
            continue
        for place in range(1, len(tied)):
            moved, hole = tied[place], place
            while hole and hashes[tied[hole - 1]] > hashes[moved]:
                tied[hole] = tied[hole - 1]
                hole -= 1
            tied[hole] = moved


@njit(cache=True)
def order_groups(times: Ints, hashes: Words, rows: int, natural: bool) -> Ints:
    """Order groups of so many rows one after the other inside a kernel, as `whole_bodies` does."""
    orders = np.empty(len(times) // rows * rows, np.int64)
    for start in range(0, len(orders), rows):
        group = slice(start, start + rows)
        orders[group] = time_order(times[group], hashes[group]) if natural else by_numba(times[group], hashes[group])
    return orders


def sorted_parts(times: Ints, hashes: Words, parts: int) -> tuple[Ints, Words]:
    """The rows dealt out to sketches, each of them sorted, one behind the other: what a union sees."""
    dealt = [np.arange(part, len(times), parts) for part in range(parts)]
    order = np.concatenate([rows[by_lexsort(times[rows], hashes[rows])] for rows in dealt])
    return times[order], hashes[order]


def streams(rows: int, rng: np.random.Generator) -> dict[str, tuple[Ints, Words]]:
    """The orders in which builds and unions meet their rows."""
    times, hashes = rng.integers(0, HOUR, rows), rng.integers(0, 2**64 - 1, rows, dtype=np.uint64)
    arrival = np.sort(times)
    late = np.where(rng.random(rows) < 0.02, rng.integers(0, 600, rows), 0)
    repeated = np.sort(rng.integers(0, rows // 2, rows))
    return {
        "one sketch": sorted_parts(times, hashes, 1),
        **{f"{parts} sketches": sorted_parts(times, hashes, parts) for parts in (2, 24, 500)},
        "in order of time": (arrival, hashes),
        "jitter of 5 s": (arrival - rng.integers(0, 6, rows), hashes),
        "2% up to 10 min late": (arrival - late, hashes),
        "each row twice or so": (arrival[repeated], hashes[repeated]),
        "newest first": (arrival[::-1].copy(), hashes),
        "random order": (times, hashes),
    }


def grouped_times(rows: int, size: int, rng: np.random.Generator) -> dict[str, Ints]:
    """The orders in which the rows of small groups come."""
    times = rng.integers(0, HOUR, rows)
    arrival = times[np.lexsort((times, np.arange(rows) // size))]
    return {
        "in order of time": arrival,
        "jitter of 5 s": arrival - rng.integers(0, 6, rows),
        "2% up to 10 min late": arrival - np.where(rng.random(rows) < 0.02, rng.integers(0, 600, rows), 0),
        "all at one time": np.zeros(rows, np.int64),
        "random order": times,
    }


def distinct(order_by: Order, times: Ints, hashes: Words) -> Ints:
    order = order_by(times, hashes)
    kept, _ = drop_repeats(order, times, hashes, hashes, times[:0])
    return order[:kept]


def whole_batches(rows: int) -> str:
    peers: dict[str, Order] = {"lexsort": by_lexsort, "argsort of a combined key": by_combined_key}
    measured = []
    for name, columns in streams(rows, np.random.default_rng(1)).items():
        expected = distinct(time_order, *columns)
        spent = []
        for order_by in (time_order, *peers.values()):
            assert (distinct(order_by, *columns) == expected).all()
            spent.append(best(lambda order_by=order_by, columns=columns: distinct(order_by, *columns), REPEATS))
        measured.append((name, *(f"{seconds * 1e3:.2f}" for seconds in spent), f"{min(spent[1:]) / spent[0]:.2f}"))
    return table(("rows come as", "natural merge sort", *peers, "gain"), measured)


def small_groups(rows: int) -> str:
    rng = np.random.default_rng(2)
    hashes = rng.integers(0, 2**64 - 1, rows, dtype=np.uint64)
    measured = []
    for size in GROUP_ROWS:
        for name, times in grouped_times(rows, size, rng).items():
            assert (order_groups(times, hashes, size, True) == order_groups(times, hashes, size, False)).all()
            own, peer = (
                best(lambda times=times, size=size, how=how: order_groups(times, hashes, size, how), REPEATS)
                for how in (True, False)
            )
            measured.append((size, name, f"{own / rows * 1e9:.0f}", f"{peer / rows * 1e9:.0f}", f"{peer / own:.2f}"))
    return table(("rows a group", "rows come", "natural merge sort", "numba's argsort", "gain"), measured)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=100_000, help="rows of a batch (default 100,000)")
    rows = options.parse_args().rows
    text = (
        f"{rows:,} rows are ordered by (time, hash), and repeats dropped; milliseconds. *gain* is the time of the "
        "faster peer over that of the natural merge sort.\n\n"
        f"{whole_batches(rows)}\n\n"
        "Groups of few rows inside a compiled kernel, which cannot call numpy's sorts; nanoseconds a row.\n\n"
        f"{small_groups(rows)}"
    )
    publish("benchmarks.md", "Order of rows", "python -m benchmarks.sorting", text)


if __name__ == "__main__":
    main()
