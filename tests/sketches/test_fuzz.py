"""A slice of the fuzz: random streams, merges and questions of every family, each answer beside the exact one.

`python -m benchmarks.fuzz` runs it for longer, and repeats a single case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.fuzz import by_cause, line
from sketches.digests.ranged_masses import RangedMasses
from sketches.estimate import Estimate
from sketches.registry import FAMILIES
from sketches.sampling.askable_sample import AskableSample
from tests.support.fuzz_cases import RANDOM
from tests.support.fuzzing import Attempt, Ledger

OURS = [name for name, family in FAMILIES.items() if family.__module__.startswith("sketches.")]  # tests register others
SEEDS = range(8)
DOUBT = 1e-4  # in which a bound that may fail is taken to fail too often


def counted(family: str, seeds: Iterable[int], *, copies: int = 2, questions: int | None = None) -> Ledger:
    ledger = Ledger()
    for seed in seeds:
        attempt = Attempt(seed, family, copies, questions, most=1000)
        ledger.extend(attempt.outcomes())
    return ledger


@pytest.mark.slow
@pytest.mark.parametrize("family", OURS)
def test_no_exact_answer_lies_outside_what_is_stated(family: str) -> None:
    """Bounds that never fail do not, and those that may fail do so no more often than they say.

    Answers, lists, curves, series and sentences are trials of their own kinds, as of the past, now and the future.
    """
    ledger = counted(family, SEEDS, questions=24 if family in RANDOM else 80)
    outside = {cause: line(found[0]) for cause, found in by_cause(ledger.violations).items()}
    assert outside == {}
    assert ledger.certain_cases > 150
    doubtful = {cell: (ledger.chance[cell].misses, ledger.chance[cell].trials) for cell in ledger.doubtful(DOUBT)}
    assert doubtful == {}
    assert [line(example) for example, _ in ledger.systematic(1e-6)] == []


# What the fuzz must notice, or it could not fail.


def planted(monkeypatch: pytest.MonkeyPatch, askable: type, spoil: Callable[[Estimate], Estimate]) -> None:
    """Spoil every single answer of a family."""
    answer = askable.answer  # type: ignore[attr-defined]
    monkeypatch.setattr(askable, "answer", lambda self, question, **more: spoil(answer(self, question, **more)))


def narrower(estimate: Estimate) -> Estimate:
    """The interval without a fortieth at each of its ends."""
    cut = (estimate.upper - estimate.lower) / 40.0
    middle = min(max(estimate.value, estimate.lower + cut), estimate.upper - cut)
    return replace(estimate, value=middle, lower=estimate.lower + cut, upper=estimate.upper - cut)


def topless(estimate: Estimate) -> Estimate:
    """The list without its first item."""
    return replace(estimate, items=estimate.items[1:])


def halved(estimate: Estimate) -> Estimate:
    """The sentence with half of its number."""
    number = r"at most ([0-9.]+(?:e[+-][0-9]+)?)"
    text = re.sub(number, lambda found: f"at most {float(found[1]) / 2:g}", estimate.guarantee)
    return replace(estimate, guarantee=text)


@pytest.mark.parametrize(
    ("spoil", "family", "kind"),
    [(narrower, "histogram", "answer"), (topless, "qdigest", "list"), (halved, "histogram", "sentence")],
)
def test_a_planted_fault_is_noticed(monkeypatch: pytest.MonkeyPatch, spoil: Any, family: str, kind: str) -> None:
    """An interval a twentieth narrower, a list without its first item, half the number in a sentence: all show."""
    planted(monkeypatch, RangedMasses, spoil)
    found = counted(family, (0, 5, 6, 9)).violations
    assert [one.kind for one in found].count(kind) >= 3


def test_intervals_that_miss_too_often_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals of a sample that are a third as wide miss more often than chance explains."""

    def third(estimate: Estimate) -> Estimate:
        lower, upper = ((end + 2.0 * estimate.value) / 3.0 for end in (estimate.lower, estimate.upper))
        return replace(estimate, lower=lower, upper=upper)

    planted(monkeypatch, AskableSample, third)
    ledger = counted("sample", range(8, 14), copies=4, questions=24)
    assert ledger.doubtful(DOUBT)
