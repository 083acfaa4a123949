"""An ecm sketch with `bits` and values outside its domain, for which the ends of the domain stand: bounds know it."""

from __future__ import annotations

import numpy as np
import pytest

from sketches import Ecm, Events, Question
from tests.support.oracle import Oracle
from tests.support.streams import Stream

RNG = np.random.default_rng(4)
BEYOND = Stream.of("beyond", np.arange(3_000), np.arange(3_000), RNG.integers(-6, 40, 3_000))  # the domain is 0 to 31
QUESTIONS = [
    *(Question("frequency", value=value) for value in (-1_000, -3, 0, 7, 31, 35, 10**6)),
    *(Question("rank", value=value) for value in (-4, -1, 0, 20, 31, 33)),
    *(Question("correlated-count", tau=tau) for tau in (-10, -2, 0, 5, 31, 34)),
    *(Question("range-frequency", low=low, high=high) for low, high in ((-5, -2), (-3, 3), (30, 38), (33, 39), (3, 9))),
    *(Question("quantile", phi=phi) for phi in (0.02, 0.1, 0.5, 0.9, 0.99)),
    Question("self-join"),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: f"{one.aggregate} {one.value} {one.tau} {one.phi}")
def test_answers_hold_where_values_lie_outside_the_domain(question: Question) -> None:
    """What is exact lies within the bounds, whether the question is about an end of the domain or beyond it."""
    exact = Oracle(BEYOND).answer(question)
    for seed in range(5):
        found = Ecm.build(Events.of(BEYOND.ids, BEYOND.t, BEYOND.v), epsilon=0.05, bits=5, seed=seed).answer(question)
        assert found.lower <= exact <= found.upper


def test_a_list_leaves_out_what_lies_beyond_the_domain() -> None:
    """The value at an end of the domain is not known by itself, and those beyond it are not listed."""
    question = Question("heavy-hitters", top=40)
    shares = Oracle(BEYOND).shares(question)
    found = Ecm.build(Events.of(BEYOND.ids, BEYOND.t, BEYOND.v), epsilon=0.05, bits=5).answer(question)
    for item in found.items:
        assert item.lower <= shares[item.value] <= item.upper
    listed = {item.value for item in found.items}
    assert found.unlisted is not None
    assert found.unlisted >= max(share for value, share in shares.items() if value not in listed)


def test_a_value_that_never_came_has_no_share() -> None:
    """A value above all that came, or below, was never there, whatever end of the domain it is nearest to."""
    sketch = Ecm.build(Events.of(range(100), range(100), [i % 10 for i in range(100)]), epsilon=0.1, bits=5)
    for value in (-1_000_000, 10, 4_000):
        found = sketch.answer(Question("frequency", value=value))
        assert (found.value, found.lower, found.upper) == (0.0, 0.0, 0.0)
