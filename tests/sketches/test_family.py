"""The contract of families: what they say of themselves, and what the registry does with names."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import pytest

from sketches import Question
from sketches.decay import parse_decay
from sketches.digests.histogram import Histogram
from sketches.errors import UnanswerableError, WaneError
from sketches.events import Kind
from sketches.family import Abilities
from sketches.promise import Built
from sketches.registry import DEFAULT_FAMILIES, FAMILIES, families_with, family_of, register
from sketches.vocabulary import AGGREGATES

HOUR = 3600.0


def built(epoch_seconds: float = HOUR, **own: Any) -> Built:
    return Built(own, {"epsilon": 0.2, "delta": 0.1}, epoch_seconds, weighted=False)


def test_a_familys_own_accuracy_goes_before_its_streams() -> None:
    """ε and δ are the family's, else the stream's, else 0.05."""
    assert (built().epsilon, built().delta) == (0.2, 0.1)
    assert (built(epsilon=0.3).epsilon, built(delta=0.4).delta) == (0.3, 0.4)
    assert (Built({}, {}, HOUR).epsilon, Built({}, {}, HOUR).delta) == (0.05, 0.05)
    assert built(epsilon="much").epsilon == 0.2


def test_the_decay_that_a_family_was_built_for() -> None:
    """It is read from the family's own settings; a text that is no decay counts as none."""
    assert built(decay="window:1h").decay == parse_decay("window:1h")
    assert built().decay is None
    assert built(decay="nonsense").decay is None


def test_abilities_include_a_question() -> None:
    """The aggregate must be listed, and a sum of values needs a family that keeps values."""
    weights = Abilities(("sum", "count"))
    assert weights.include(Question("sum"))
    assert not weights.include(Question("mean"))
    assert not weights.include(Question("sum", of="value"))
    assert Abilities(("sum",), of_value=True).include(Question("sum", of="value"))
    assert (weights.joins, Abilities(("inner-product",)).joins) == (False, True)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_promise_keeps_to_the_abilities(name: str) -> None:
    """A family promises nothing for what it does not answer: other aggregates, the past, other decays."""
    family = FAMILIES[name]
    fixed = "exp:half_life=1h"
    needs: dict[str, dict[str, Any]] = {
        "quantile": {"phi": 0.9},
        "rank": {"value": 3},
        "frequency": {"value": 3},
        "selectivity": {"tau": 3},
        "ratio": {"of": "value", "per": "events"},
    }
    for aggregate in AGGREGATES:
        given = needs.get(aggregate, {"low": 1, "high": 2} if "range" in aggregate else {})
        if aggregate.startswith("correlated"):
            given = {"tau": 3}
        question = Question(aggregate, fixed, **given)
        promise = family.promise(question, built(decay=fixed, bits=8, history="7d"), past=False)
        assert (promise is None) == (aggregate not in family.abilities.aggregates), aggregate
        if promise is not None:
            assert 0.0 <= promise.width < math.inf
        if not family.abilities.past:
            assert family.promise(question, built(decay=fixed), past=True) is None
        if family.abilities.fixed_decay:
            assert family.promise(question, built(decay="exp:half_life=2h"), past=False) is None


def test_every_family_says_what_values_it_takes() -> None:
    """Numbers and text, but for those that are about the order of numbers."""
    ordered = {name for name, family in FAMILIES.items() if family.abilities.kinds == (Kind.INTEGER, Kind.FLOAT)}
    assert ordered == {"wbmh", "kll"}
    assert {family.abilities.kinds for name, family in FAMILIES.items() if name not in ordered} == {tuple(Kind)}
    assert set(DEFAULT_FAMILIES) <= set(FAMILIES)


def test_every_family_is_known_by_its_own_name() -> None:
    """The registry says which class a name stands for before it imports it; the class says the same."""
    assert {name: family.family for name, family in FAMILIES.items()} == {name: name for name in FAMILIES}
    assert "histogram" in FAMILIES
    assert "nothing" not in FAMILIES
    assert len(FAMILIES) == len(list(FAMILIES))


def test_names_are_taken_once() -> None:
    """Registering a family again changes nothing; another family of the same name is refused."""

    class Impostor(Histogram):
        family: ClassVar[str] = "histogram"

    assert register(Histogram) is Histogram
    with pytest.raises(WaneError, match="there is a family 'histogram' already"):
        register(Impostor)
    assert family_of("histogram") is Histogram


def test_an_unknown_family_is_named_with_the_known_ones() -> None:
    """Not an IndexError, not silence: one sentence."""
    with pytest.raises(
        UnanswerableError, match=r"family 'bloom' is not known to this version of wane; known are sample"
    ):
        family_of("bloom")


def test_families_with_an_ability() -> None:
    """Error messages list who can do what, from the families themselves."""
    assert families_with("curves") == "sample, integral, qdigest, exponential, wbmh, division and kll have"
    assert families_with("joins") == "sample and ecm have"
    assert families_with("joint_lists") == "sample and ecm have"
