"""Predicates: what is read, what is refused, and which events satisfy them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sketches.errors import QuestionError
from sketches.predicate import Predicate, Range, in_steps


def test_open_and_closed_ends() -> None:
    """At least, above, at most, below: over whole numbers and over floats, with whole and broken bounds."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        low, high = sorted(rng.integers(-6, 6, 2) / rng.choice([1, 2]))
        limits = Range(float(low), float(high), bool(rng.random() < 0.5), bool(rng.random() < 0.5))
        for numbers in (np.arange(-8, 9), np.arange(-16, 17) / 2):
            above = numbers > limits.low if limits.open_low else numbers >= limits.low
            below = numbers < limits.high if limits.open_high else numbers <= limits.high
            assert limits.holds(numbers).tolist() == (above & below).tolist(), limits


def test_large_whole_numbers_are_compared_exactly() -> None:
    """A float has too few digits for 2^60 + 1; the bound of a range keeps them."""
    numbers = np.array([2**60, 2**60 + 1, 2**60 + 2])
    assert Range(2**60 + 1).holds(numbers).tolist() == [False, True, True]
    assert Predicate.parse(f"value > {2**59 + 1}").range_of("value").low == 2**59 + 1


@pytest.mark.parametrize("step", [0.01, 0.1, 0.25, 3.0])
def test_bounds_in_steps(step: float) -> None:
    """A bound that is a multiple of the step but for rounding is that multiple: strict stays strict."""
    for multiple in range(200):
        bound = multiple * step
        steps = np.arange(multiple - 2, multiple + 3)
        assert (
            Range(low=bound).with_bounds(lambda one: in_steps(one, step)).holds(steps).tolist()
            == (steps >= multiple).tolist()
        )
        assert (
            Range(low=bound, open_low=True).with_bounds(lambda one: in_steps(one, step)).holds(steps).tolist()
            == (steps > multiple).tolist()
        )
        assert (
            Range(high=bound, open_high=True).with_bounds(lambda one: in_steps(one, step)).holds(steps).tolist()
            == (steps < multiple).tolist()
        )


def test_ranges_intersect() -> None:
    """Both conditions hold; of two equal bounds the open one is stricter."""
    both = Predicate.parse("value >= 3 and value > 3 and value < 9 and value <= 9")
    assert both.range_of("value") == Range(3, 9, open_low=True, open_high=True)
    assert both == Predicate.parse("value>3 AND value<9")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("value < 60", "the value is below 60"),
        ("weight >= 0.5 and value = 3", "the value is 3 and the weight is at least 0.5"),
        ("value = 'it''s'", "the value is 'it's'"),
    ],
)
def test_predicates_are_read_and_worded(text: str, words: str) -> None:
    """What was typed comes back in words."""
    assert Predicate.parse(text).words() == words


@pytest.mark.parametrize(
    "text",
    [
        "",
        "value",
        "value >",
        "price > 3",
        "value >> 3",
        "value > 3 or",
        "value > 3 and",
        "value > 5 and value < 4",
        "value = 'a' and value = 'b'",
        "value > 'a'",
        "weight = 'a'",
        "value > nan",
        "value > inf",
        "value > 1e999",
        "value > __import__('os')",
        "(" * 100_000,
        "value > 1 and " * 100 + "value > 1",
        "value > " + "9" * 1_900,
        "value > 1\x00",
        "v" * 1_000_000,
    ],
)
def test_hostile_and_mistaken_predicates_get_a_sentence(text: str) -> None:
    """Nothing is executed, nothing hangs, and the error says what would be valid."""
    with pytest.raises(QuestionError) as refusal:
        Predicate.parse(text)
    assert len(str(refusal.value)) < 400


def test_no_condition_is_no_predicate() -> None:
    """A range of all numbers restricts nothing."""
    assert not Predicate()
    assert not Predicate.of(None, value=Range())
    assert Predicate.parse("value > 1").columns == {"value"}
    with pytest.raises(QuestionError):
        Range(math.nan)


def test_bounds_beyond_the_numbers_of_a_column() -> None:
    """A bound above 2^63 leaves out no whole number, or all; a strict one stays strict at 2^62."""
    numbers = np.array([-(2**63), 0, 2**62, 2**62 + 1, 2**63 - 1])
    assert Range(high=1e30).holds(numbers).all()
    assert not Range(low=1e30).holds(numbers).any()
    assert not Range(high=-1e30).holds(numbers).any()
    assert Range(low=2**62, open_low=True).holds(numbers).tolist() == [False, False, False, True, True]
