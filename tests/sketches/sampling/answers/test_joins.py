"""Joins over time: every point of a series is the single answer, from one pass over all as-of times."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from sketches import Question
from sketches.errors import QuestionError
from sketches.estimate import Estimate, Series
from tests.support.coverage import build
from tests.support.streams import STREAMS, joined

DECAYS = ("exp:half_life=10m", "window:20m", "poly:alpha=1.5,unit=1m")


def assert_single_answers(series: Series, singles: list[Estimate]) -> None:
    for name in ("value", "lower", "upper"):
        assert getattr(series, name) == pytest.approx(np.array([getattr(one, name) for one in singles]), rel=1e-9), name
    assert series.used.tolist() == [one.used for one in singles]


@pytest.mark.parametrize("name", ["keys", "heavy-weights"])
@pytest.mark.parametrize("decay", DECAYS)
def test_a_series_is_its_single_answers(name: str, decay: str) -> None:
    """From before the first event to long after the last, in parts of few times, of sources that share events."""
    stream = STREAMS[name](12_000, 5)
    left, right = stream.split(2, 1)
    one, two = build(left, 1, 0.2, 0.05), build(joined([right, left.take(np.arange(500))]), 1, 0.2, 0.05)
    times = np.linspace(stream.t.min() - 100, stream.t.max() + 5_000, 11).astype(np.int64)
    with patch("sketches.sampling.estimation.inquiry._AT_ONCE", 3 * one.kept):
        joined_itself = one.series(Question("self-join", decay), times)
        product = one.series(Question("inner-product", decay), times, other=two)
    asked = [Question("self-join", decay).at(moment) for moment in times.tolist()]
    assert_single_answers(joined_itself, [one.answer(question) for question in asked])
    asked = [Question("inner-product", decay).at(moment) for moment in times.tolist()]
    assert_single_answers(product, [one.answer(question, other=two) for question in asked])
    assert joined_itself.confidence == product.confidence == 0.95


def test_a_series_is_exact_where_every_point_is() -> None:
    """It is no surer than its least sure point, however sure the newest one is."""
    stream = STREAMS["late"](4_000, 3)
    one, newest = build(stream, 1, 0.2, 0.05), int(stream.t.max())
    recent, question = np.array([newest - 1, newest]), Question("self-join", "window:10s")
    assert one.series(question, recent).confidence == 1.0
    assert one.series(question, np.append(recent, int(stream.t.min()) + 900)).confidence == 0.95


def test_a_second_side_belongs_to_inner_products() -> None:
    one = build(STREAMS["keys"](300, 5), 1, 0.2, 0.05)
    with pytest.raises(QuestionError, match="needs a second sketch"):
        one.series(Question("inner-product"), [0])
    with pytest.raises(QuestionError, match="goes with inner-product"):
        one.series(Question("sum"), [0], other=one)
