"""The one place where ids and keys become 64 random-looking bits, the same on every machine and in every process.

Sampling depends on nothing but this hash and the seed of the sketch, so two workers that meet the same event decide
alike and re-ingesting it changes nothing. For the same reason the bits below can never change: sketches already
stored were built with them. Python's own ``hash()`` is salted per process and would break all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import mmh3
import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Words
from sketches.compiled import njit, vectorize
from sketches.errors import EventError, WaneError

_SHIFT = np.uint64(33)
_FIRST_FACTOR = np.uint64(0xFF51AFD7ED558CCD)
_SECOND_FACTOR = np.uint64(0xC4CEB9FE1A85EC53)

_SALT_OFFSET = 0xD1B54A32D192ED03  # the finaliser maps 0 to 0, and seed 0 must have a salt like any other

# Odd, so that each column alone moves the sum one-to-one; unrelated, so that columns do not cancel each other.
_TIME_FACTOR = np.uint64(0x9FB21C651E98DF25)
_VALUE_FACTOR = np.uint64(0xD6E8FEB86659FD93)
_WEIGHT_FACTOR = np.uint64(0xA0761D6478BD642F)

# Of an event's hash 56 bits are kept: a byte less for every stored event. Two events are taken for one only if they
# also agree in time, value and weight, which for a million such events in one second happens once in 100,000 sketches.
HASH_SHIFT = 8
_KEPT_BITS = np.uint64((1 << 64) - (1 << HASH_SHIFT))

_COPY_BITS = 16
_WORD = 1 << 64


def finalise(x: Words) -> Words:
    """murmur3's 64-bit finaliser: a bijection in which every input bit moves about half of the output bits.

    >>> hex(finalise(np.array([1], dtype=np.uint64))[0])
    '0xb456bcfc34c2cb2c'
    """
    mixed = np.array(x, dtype=np.uint64)
    mixed ^= mixed >> _SHIFT
    mixed *= _FIRST_FACTOR
    mixed ^= mixed >> _SHIFT
    mixed *= _SECOND_FACTOR
    mixed ^= mixed >> _SHIFT
    return mixed


@njit(inline="always", cache=True)
def finalise_one(x: np.uint64) -> np.uint64:
    """`finalise` of one number, for use inside numba kernels; pass ``np.uint64`` (called from Python it gives an int).

    A kernel elsewhere that is compiled with ``cache=True`` keeps the copy of this function it was compiled with.
    """
    x ^= x >> _SHIFT
    x *= _FIRST_FACTOR
    x ^= x >> _SHIFT
    x *= _SECOND_FACTOR
    x ^= x >> _SHIFT
    return x


@njit(inline="always", cache=True)
def event_hash(identity: np.uint64, time: np.uint64, value: np.uint64, weight: np.uint64, salt: np.uint64) -> np.uint64:
    """The hash of a whole event, for kernels: what decides whether it is sampled, and what tells it from others.

    All four columns take part because rows that share an id but disagree are separate events: sampled by their id alone
    they would come and go together, and no interval computed as if they were independent would hold.
    """
    mixed = finalise_one(identity ^ salt) + time * _TIME_FACTOR + value * _VALUE_FACTOR + weight * _WEIGHT_FACTOR
    return finalise_one(mixed) & _KEPT_BITS


@vectorize(["uint64(uint64, uint64, uint64, uint64, uint64)"], cache=True)
def event_hashes(
    identity: np.uint64, time: np.uint64, value: np.uint64, weight: np.uint64, salt: np.uint64
) -> np.uint64:
    """`event_hash` over columns of 64-bit words."""
    return event_hash(identity, time, value, weight, salt)


def hash_text(texts: Sequence[str | bytes] | NDArray[Any]) -> Words:
    """Hash texts: the first word of MurmurHash3 x64 128 of the UTF-8 bytes; bytes are taken as they are.

    Keys repeat (URLs, addresses), so each distinct text is hashed once and looked up for its repeats.

    >>> hash_text(["foo", "bar", b"foo"]).tolist() == [hash_one("foo"), hash_one("bar"), hash_one("foo")]
    True
    """
    if isinstance(texts, (str, bytes)):
        raise EventError(f"texts is the single text {texts!r}; it must be a column of texts")
    column = texts.tolist() if isinstance(texts, np.ndarray) else texts
    codes: dict[Any, int] = {}
    try:
        rows = np.fromiter((codes.setdefault(text, len(codes)) for text in column), np.intp, len(column))
        missing = [code for text, code in codes.items() if text is None or text != text]  # noqa: PLR0124 - NaN does
        if missing:
            lacking = np.flatnonzero(np.isin(rows, missing))
            raise EventError(
                f"texts have no value in {len(lacking)} rows, the first is row {lacking[0]}; each needs one"
            )
        distinct = hash_each(map(_utf_8, codes))
    except (TypeError, UnicodeEncodeError) as error:
        raise EventError(f"texts cannot be hashed: {error}; each must be text that UTF-8 can write, or bytes") from None
    return distinct[rows]


def hash_each(texts: Iterable[bytes]) -> Words:
    """The hash of each text, for a column of which the repeats are known already.

    >>> hash_each([b"foo"]) == hash_text(["foo"])
    array([ True])
    """
    digests = b"".join(map(mmh3.mmh3_x64_128_digest, texts))
    return np.frombuffer(digests, dtype="<u8")[::2].astype(np.uint64)


def _utf_8(text: str | bytes) -> bytes:
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, bytes):
        return text
    raise TypeError(f"{text!r} is not text")


def hash_one(text: str | bytes) -> int:
    """The hash that `hash_text` gives this text, as a plain int."""
    return int(hash_text([text])[0])


def refuse_seed(seed: int) -> None:
    """Refuse a seed that does not fit in 64 bits."""
    if not 0 <= seed < _WORD:
        raise WaneError(f"seed is {seed}; it must be at least 0 and below 2^64")


def salt(seed: int, copy: int) -> int:
    """What is xored into hashes so that each copy of a sketch, and each seed, draws its own sample.

    Distinct for distinct pairs as long as seeds stay below 2**48; above that, still distinct among the copies of one
    seed and among the seeds of one copy.
    """
    refuse_seed(seed)
    if not 0 <= copy < 1 << _COPY_BITS:
        raise WaneError(f"copy is {copy}; it must be at least 0 and below 2**{_COPY_BITS}")
    pair = seed ^ (copy << (64 - _COPY_BITS))
    return int(finalise(np.array([pair ^ _SALT_OFFSET], dtype=np.uint64))[0])
