"""Enclosures of formulas against the formulas themselves, computed at many ages of many pieces."""

from __future__ import annotations

import numpy as np
import pytest

from sketches.decay.formula import OPERATIONS, Formula
from sketches.decay.slopes import Interval, enclose

UNARY = ("exp", "ln", "log2", "log10", "sqrt", "abs", "-")
BINARY = ("+", "-", "*", "/", "^", "<", "<=", ">", ">=", "min", "max", "pow")
NUMBERS = ("0", "0.5", "1", "2", "3", "-1", "-2", "1.5", "-0.5", "10", "0.01")


def random_text(rng: np.random.Generator, depth: int) -> str:
    if depth == 0 or rng.random() < 0.15:
        return "age" if rng.random() < 0.6 else f"({rng.choice(NUMBERS)})"
    if rng.random() < 0.35:
        return f"{rng.choice(UNARY)}({random_text(rng, depth - 1)})"
    sign, a, b = rng.choice(BINARY), random_text(rng, depth - 1), random_text(rng, depth - 1)
    return f"{sign}({a},{b})" if sign in ("min", "max", "pow") else f"(({a}){sign}({b}))"


def contains(interval: Interval, numbers: np.ndarray, slack: np.ndarray | float = 0.0) -> np.ndarray:
    low, high = (np.broadcast_to(each, numbers.shape[:1])[:, None] for each in (interval.low, interval.high))
    return (numbers >= low - slack) & (numbers <= high + slack) | np.isnan(numbers)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_lies_outside(seed: int) -> None:
    """Values, slopes between any two ages, slopes of the logarithm and second differences of 150 random formulas."""
    rng = np.random.default_rng(seed)
    tried = 0
    for _ in range(150):
        formula = Formula.parse(random_text(rng, 4))
        low = rng.choice([0.0, 0.25, 1.0, 2.0, 7.0], 12) + rng.choice([0.0, 1e-3, 0.3], 12)
        high = low + rng.choice([1e-2, 0.5, 3.0], 12)
        ages = low[:, None] + (high - low)[:, None] * np.append(
            np.sort(rng.random((12, 20)), axis=1), np.ones((12, 1)), 1
        )
        found, values = enclose(formula.program, OPERATIONS, low, high), formula(ages)
        sound = np.broadcast_to(found.sound, low.shape)
        assert not np.isnan(values[sound]).any(), formula.text
        values = np.where(sound[:, None] & (np.abs(values) < 1e100), values, np.nan)
        assert contains(found.value, values).all(), formula.text
        with np.errstate(all="ignore"):
            largest = np.fmax.reduce(np.abs(values), axis=1, keepdims=True)
            steps = ages[:, 1:] - ages[:, :1]
            noise = 1e-13 * (1 + largest) / steps
            assert contains(found.slope, (values[:, 1:] - values[:, :1]) / steps, noise).all(), formula.text
            logs = np.log(np.where(values > 0, values, np.nan))
            growth = (logs[:, 1:] - logs[:, :1]) / steps
            scale = 1e-12 * (1 + np.fmax.reduce(np.abs(logs), axis=1, keepdims=True)) / steps
            assert (contains(found.growth, growth, scale) | ~(values > 0).all(axis=1)[:, None]).all(), formula.text
            slopes = np.diff(values, axis=1) / np.diff(ages, axis=1)
            between = (ages[:, 2:] - ages[:, :-2]) / 2
            bends = np.diff(slopes, axis=1) / between
            gap = np.minimum(np.diff(ages, axis=1)[:, 1:], np.diff(ages, axis=1)[:, :-1])
            noise = 1e-12 * (1 + largest) / gap / between
            assert contains(found.bend, bends, noise).all(), formula.text
        tried += int(sound.sum())
    assert tried > 400
