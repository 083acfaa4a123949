"""Rare tails are answered by the family with a relative error, others by the one that is narrower there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest

from sketches import Question
from store import Store
from tests.store.serving.test_planner import ROWS, stored
from tests.support.oracle import Oracle
from tests.support.stores import STREAM
from tests.support.streams import START, Stream

FADING: Final = "poly:alpha=0.5,unit=1m"
OWN: Final = {"wbmh": {"decay": FADING}, "sample": {"detail": 1, "epsilon": 0.05}}


@pytest.fixture(scope="module")
def rows() -> Stream:
    rng = np.random.default_rng(4)
    n = 40_000
    return Stream.of("tail", np.arange(n), np.sort(rng.integers(START, START + 7200, n)), rng.pareto(1.0, n), [1] * n)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, rows: Stream) -> Path:
    folder = tmp_path_factory.mktemp("tails")
    return stored(folder / "wane.duckdb", rows, ["sample", "wbmh"], OWN, names=("one",))


def asked(tau: float, decay: str = FADING) -> Question:
    return Question("correlated-count", decay, tau=tau)


def test_the_tail_decides_which_family_answers(path: Path, rows: Stream) -> None:
    """Whichever is picked is narrower than the other, or not much wider; the rarest tails are for `wbmh`."""
    store, oracle, picked = Store(path), Oracle(rows), []
    for share in (0.5, 0.9, 0.99, 0.999, 0.9999):
        question = asked(float(np.quantile(rows.v, share)))
        widths = {
            family: (one := store.ask(STREAM, question, family=family).estimate).upper - one.lower
            for family in ("sample", "wbmh")
        }
        answer = store.ask(STREAM, question)
        if answer.estimate.family == "wbmh":
            assert answer.estimate.lower <= oracle.answer(question.at(int(rows.t.max()))) <= answer.estimate.upper
        assert widths[answer.estimate.family] <= 1.5 * min(widths.values()) + 1e-9, (share, widths)
        picked.append(answer.estimate.family)
    assert (picked[0], picked[-1]) == ("sample", "wbmh")


def test_without_a_certain_family_the_tail_is_not_known(tmp_path: Path, rows: Stream, path: Path) -> None:
    """The pick is then as before, by what all tails have in common; and so it is where a family is asked for."""
    alone = stored(tmp_path / "alone.duckdb", ROWS, ["sample", "qdigest"])
    rare, common = asked(999.0), asked(0.0)
    store = Store(alone)
    assert store.ask(STREAM, rare).provenance.why == store.ask(STREAM, common).provenance.why
    tail = float(np.quantile(rows.v, 0.9999))
    assert Store(path).ask(STREAM, asked(tail), family="sample").estimate.family == "sample"
    assert Store(path).ask(STREAM, asked(tail)).provenance.why != Store(path).ask(STREAM, asked(0.0)).provenance.why
