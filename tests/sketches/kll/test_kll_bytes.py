"""The library's bytes are read as the library reads them, and hostile ones reach none of its code."""

from __future__ import annotations

import subprocess
import sys

import datasketches
import numpy as np
import pytest

from sketches.errors import CorruptError
from sketches.kll.kll_bytes import ITEMS, KllBytes, k_for, rank_error
from sketches.kll.library import built, merged
from tests.support.paths import ROOT


def bytes_of(values: np.ndarray, k: int, items: str) -> bytes:
    """What the library writes."""
    if items == "bigint":
        sketch = datasketches.kll_items_sketch(k)
        for value in values.tolist():
            sketch.update(value)
        return sketch.serialize(datasketches.PyLongsSerDe())
    sketch = getattr(datasketches, f"kll_{items}s_sketch")(k)
    sketch.update(values.astype(ITEMS[items]))
    return sketch.serialize()


@pytest.mark.parametrize("items", ITEMS)
@pytest.mark.parametrize("k", [8, 9, 200, 65_535])
def test_the_librarys_bytes_are_read_and_written(k: int, items: str) -> None:
    """Its rows, its values with their weights and its ends come back, and the library reads what is written here."""
    rng = np.random.default_rng(k)
    for rows in (0, 1, 2, 8, 1000, 5000):
        values = rng.integers(-(2**20), 2**20, rows)
        data = bytes_of(values, k, items)
        found = KllBytes.read(data, items)
        assert (found.rows, found.weights.sum(), found.k) == (rows, rows, k)
        assert found.exact == (len(found.values) == rows)
        again = found.to_bytes()
        assert (again[:3], again[4:]) == (data[:3], data[4:])  # the fourth says whether the lowest level is in order
        if rows:
            assert (found.least, found.greatest) == (values.min(), values.max())
            kind = getattr(datasketches, f"kll_{items}s_sketch", datasketches.kll_items_sketch)
            serde = [datasketches.PyLongsSerDe()] if items == "bigint" else []
            theirs = kind.deserialize(again, *serde)
            assert sorted(theirs) == sorted(zip(found.values.tolist(), found.weights.tolist(), strict=True))
            assert theirs.normalized_rank_error(False) == pytest.approx(rank_error(k))
            assert theirs.normalized_rank_error(True) == pytest.approx(rank_error(k, ends=2))


@pytest.mark.parametrize("shift", [0, 2**60])
def test_whole_numbers_keep_all_their_digits(shift: int) -> None:
    """Built and merged, also where 64-bit floats cannot hold them."""
    values = np.arange(3000) + shift
    whole = merged([built(values, 100, "bigint"), built(values + 3000, 100, "bigint")], "bigint")
    assert (whole.rows, whole.least, whole.greatest) == (6000, shift, shift + 5999)
    assert whole.values.dtype == np.int64
    assert {int(value) - shift for value in whole.values} <= set(range(6000))


def test_the_k_of_an_error_is_the_least_one() -> None:
    """The k for an error has it, and the one below it does not."""
    for error in (0.3, 0.05, 0.0133, 0.001):
        k = k_for(error)
        assert rank_error(k) <= error < rank_error(k - 1)


def test_sketches_of_other_values_are_refused() -> None:
    """Floats of 32 bits are no doubles, and whole numbers are none either; text says what would be valid."""
    values = np.arange(1, 1000)
    with pytest.raises(CorruptError, match="double values takes"):
        KllBytes.read(bytes_of(values, 200, "float"), "double")
    with pytest.raises(CorruptError, match='items = "bigint"'):
        KllBytes.read(bytes_of(values, 200, "bigint"), "double")
    for bad in (np.inf, 1e301):
        with pytest.raises(CorruptError, match="not a number of at most"):
            KllBytes.read(bytes_of(np.array([1.0, bad]), 200, "double"), "double")
    with pytest.raises(CorruptError, match="not a KLL sketch"):
        KllBytes.read(datasketches.theta_union().get_result().serialize() + bytes(8), "double")


MUTATE = """
import sys
import numpy as np
from sketches.errors import CorruptError
from sketches.kll.kll_bytes import ITEMS, KllBytes
from sketches.kll.library import built, merged

rng = np.random.default_rng(1)
read = refused = 0
for items in ITEMS:
    for rows in (0, 1, 30, 3000):
        data = built(rng.integers(-1000, 1000, rows), 20, items).to_bytes()
        for turn in range(500):
            changed = bytearray(data)
            kind = turn % 4
            for _ in range(1 + turn % 3):
                at = int(rng.integers(min(len(changed), 40 if turn % 2 else len(changed))))
                if kind == 0:
                    changed[at] ^= 1 << int(rng.integers(8))
                elif kind == 1:
                    changed[at] = int(rng.integers(256))
                elif kind == 2:
                    changed[at : at + 8] = rng.bytes(8)
                else:
                    del changed[at : at + int(rng.integers(1, 9))]
                    changed += rng.bytes(int(rng.integers(9)))
            try:
                found = KllBytes.read(bytes(changed), items)
            except CorruptError:
                refused += 1
                continue
            read += 1
            assert merged([found, found], items).rows == 2 * found.rows
print(read, refused)
"""


def test_hostile_bytes_crash_nothing() -> None:
    """Of 6,000 changed sketches each is refused, or the library merges it: in a process of its own, which survives."""
    done = subprocess.run(
        [sys.executable, "-c", MUTATE], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    read, refused = map(int, done.stdout.split())
    assert read + refused == 6000
    assert read > 100
    assert refused > 3000
