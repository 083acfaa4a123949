"""Hashes are the same bits everywhere, spread evenly, and refuse what cannot be an id."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any

import mmh3
import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sketches.errors import EventError, WaneError
from sketches.hashing import event_hashes, finalise, finalise_one, hash_one, hash_text, salt
from tests.support.paths import ROOT

WORD = 1 << 64
words = st.integers(0, WORD - 1)


def hashes(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """The hashes of events that differ in their ids alone."""
    word = np.uint64
    return event_hashes(ids.astype(word), word(1_700_000_000), word(7), word(1), word(salt(0, 0)))


def murmur_finaliser(x: int) -> int:
    """The finaliser as its author wrote it, on Python's unbounded integers."""
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD % WORD
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 % WORD
    return x ^ x >> 33


@numba.njit()
def finalise_each(column: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = np.empty_like(column)
    for row in range(len(column)):
        mixed[row] = finalise_one(column[row])
    return mixed


@given(st.lists(words, max_size=20))
def test_the_finaliser_is_murmurs(numbers: list[int]) -> None:
    """The vectorised finaliser and its twin for kernels give the bits of the published one."""
    column = np.array(numbers, dtype=np.uint64)
    expected = [murmur_finaliser(number) for number in numbers]
    assert finalise(column).tolist() == expected
    assert finalise_each(column).tolist() == expected


def test_the_finaliser_leaves_its_input_alone_and_does_not_warn() -> None:
    """Wrap-around is silent, for a column and for a single number, and the column given is not written to."""
    column = np.array([WORD - 1, 1], dtype=np.uint64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mixed = finalise(column)
        single = finalise(np.array(WORD - 1, dtype=np.uint64))
    assert column.tolist() == [WORD - 1, 1]
    assert int(single) == mixed[0] == murmur_finaliser(WORD - 1)


def test_known_hashes_never_change() -> None:
    """Stored sketches were built with these bits, so they are literals here."""
    assert hashes(np.array([0, 1, -1, 2**63 - 1, -(2**63)])).tolist() == [
        14131358171656974336,
        2457864420609712896,
        11891232209884087040,
        2135671309219794688,
        2998826034681471232,
    ]
    assert hash_text(["", "foo", "Grüße", "https://example.org/a?b=c"]).tolist() == [
        0,
        16316970633193145697,
        14430444751114318902,
        586785086653344990,
    ]
    assert [salt(0, 0), salt(1, 0), salt(0, 1), salt(WORD - 1, 65535)] == [
        17459417773143303033,
        1303445412361179593,
        16970580436632259246,
        140814920259322500,
    ]


def test_text_hash_is_the_documented_murmur_hash() -> None:
    """The example in mmh3's own documentation comes out, as an unsigned number."""
    assert hash_one("foo") == -2129773440516405919 % WORD


@pytest.mark.slow
def test_another_process_with_another_hash_seed_agrees() -> None:
    """Nothing depends on Python's salted hash: a fresh process under another PYTHONHASHSEED prints the same."""
    program = (
        "import numpy as np; from sketches.hashing import *;"
        "print(hash_text(['a', 'b']).tolist(), event_hashes(*np.arange(5, dtype=np.uint64)), salt(5, 6), hash_one('a'))"
    )
    hashed = event_hashes(*np.arange(5, dtype=np.uint64))
    here = f"{hash_text(['a', 'b']).tolist()} {hashed} {salt(5, 6)} {hash_one('a')}\n"
    other = "1" if os.environ.get("PYTHONHASHSEED") == "4242" else "4242"
    there = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": other, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert there.stdout == here


@pytest.mark.parametrize("shift", [8, 56, 28])
def test_hashes_of_counting_ids_are_uniform(shift: int) -> None:
    """Low, middle and high bytes of the hashes of 0, 1, 2, … pass a chi-square test that fails one time in 10,000."""
    rows = 1 << 20
    byte = (hashes(np.arange(rows)) >> np.uint64(shift)) & np.uint64(0xFF)
    counts = np.bincount(byte.astype(np.int64), minlength=256)
    expected = rows / 256
    assert np.sum((counts - expected) ** 2 / expected) < 347.6  # 255 degrees of freedom


@pytest.mark.parametrize("shift", [8, 56])
def test_hashes_of_far_apart_ids_are_uniform(shift: int) -> None:
    """Ids that differ in their high bits only, as shifted counters do, spread just as evenly."""
    rows = 1 << 16
    ids = np.arange(rows, dtype=np.uint64) << np.uint64(48)
    byte = (hashes(ids) >> np.uint64(shift)) & np.uint64(0xFF)
    counts = np.bincount(byte.astype(np.int64), minlength=256)
    expected = rows / 256
    assert np.sum((counts - expected) ** 2 / expected) < 347.6


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=50))
def test_distinct_integers_never_collide(numbers: list[int]) -> None:
    """Events that differ in their integer ids alone share none of the 56 bits that are kept, but by rare chance."""
    assert len(set(hashes(np.array(numbers, dtype=np.int64)).tolist())) == len(numbers)


@given(st.tuples(words, words, words, words, words))
def test_an_events_hash_takes_in_every_column(event: tuple[int, ...]) -> None:
    """It is the published mixture, and changing any one column or the salt changes it."""
    identity, time, value, weight, salted = event
    inner = murmur_finaliser(identity ^ salted)
    inner += time * 0x9FB21C651E98DF25 + value * 0xD6E8FEB86659FD93 + weight * 0xA0761D6478BD642F
    found = int(event_hashes(*(np.uint64(word) for word in event)))
    assert found == murmur_finaliser(inner % WORD) >> 8 << 8
    for column in range(5):
        other = [np.uint64(word ^ (column == at)) for at, word in enumerate(event)]
        assert int(event_hashes(*other)) != found


@given(st.lists(st.text(max_size=8), max_size=30))
def test_every_form_of_a_text_column_hashes_alike(texts: list[str]) -> None:
    """A list, an object column, a numpy string column and UTF-8 bytes give the hash of each text by itself."""
    expected = [mmh3.mmh3_x64_128_utupledigest(text.encode())[0] for text in texts]
    assert hash_text(texts).tolist() == expected
    assert hash_text([text.encode() for text in texts]).tolist() == expected
    assert hash_text(np.array(texts, dtype=object)).tolist() == expected
    assert hash_text(np.array(texts, dtype=np.dtypes.StringDType())).tolist() == expected
    assert [hash_one(text) for text in texts] == expected


def test_a_nul_inside_a_text_counts() -> None:
    """Texts that differ only after a NUL differ in their hash, in a numpy text column too."""
    texts = ["a\0b", "a\0c"]
    assert hash_text(np.array(texts)).tolist() == hash_text(texts).tolist()
    assert len(set(hash_text(texts).tolist())) == 2


def test_each_distinct_text_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeats of a key cost a lookup, not a hash."""
    hashed: list[bytes] = []
    genuine = mmh3.mmh3_x64_128_digest

    def counting(key: bytes) -> bytes:
        hashed.append(key)
        return genuine(key)

    monkeypatch.setattr(mmh3, "mmh3_x64_128_digest", counting)
    hash_text(["a", "b"] * 1000)
    assert sorted(hashed) == [b"a", b"b"]


@pytest.mark.parametrize(
    "texts",
    [["a", None], ["a", float("nan")], np.array(["a", None], dtype=object), np.array(["a", np.nan], dtype=object)],
)
def test_missing_texts_are_refused(texts: Any) -> None:
    """None and NaN are not keys, and the message names the row."""
    with pytest.raises(EventError, match="no value in 1 rows, the first is row 1"):
        hash_text(texts)


@pytest.mark.parametrize("texts", [["a", 3], [3.5], ["\ud800"], np.array([1, 2]), np.array([["a"], ["b"]])])
def test_what_is_not_text_is_refused(texts: Any) -> None:
    """Numbers, nested columns and text that UTF-8 cannot write are no texts."""
    with pytest.raises(EventError, match="texts cannot be hashed"):
        hash_text(texts)


@pytest.mark.parametrize("text", ["abc", b"abc"])
def test_a_single_text_is_not_a_column_of_letters(text: Any) -> None:
    """A text where a column was meant is refused rather than hashed letter by letter."""
    with pytest.raises(EventError, match="single text"):
        hash_text(text)


def test_salts_differ_between_seeds_and_copies() -> None:
    """No two of 500 seeds, small and near 2**48, times 64 copies share a salt."""
    seeds = [*range(250), *range(2**48 - 250, 2**48)]
    salts = {salt(seed, copy) for seed in seeds for copy in range(64)}
    assert len(salts) == len(seeds) * 64


@given(words, words, st.integers(0, 65535), st.integers(0, 65535))
def test_salts_of_large_seeds_differ_along_each_axis(seed: int, other: int, copy: int, second: int) -> None:
    """Any two copies of one seed, and one copy of any two seeds, get their own salt."""
    assert (salt(seed, copy) == salt(seed, second)) == (copy == second)
    assert (salt(seed, copy) == salt(other, copy)) == (seed == other)


@pytest.mark.parametrize(("seed", "copy"), [(-1, 0), (WORD, 0), (0, -1), (0, 65536)])
def test_salts_are_refused_out_of_range(seed: int, copy: int) -> None:
    """A seed that would not fit the envelope, or too many copies, is refused."""
    with pytest.raises(WaneError, match="must be at least 0 and below"):
        salt(seed, copy)
