"""The newest events by number are found from the newest rows on: however few are looked at first, the answer is one."""

from __future__ import annotations

import numpy as np
import pytest

from sketches import Question
from tests.support.leaned import DAY, NAMES, Exact, stream_of

TIMES = np.array([20, 5 * 3_600, 4 * DAY + 1_234, 6 * DAY + 7_200, 10 * DAY - 1])
SURE = 1 - 1e-9


@pytest.mark.parametrize("count", [1, 30, 900, 100_000])
@pytest.mark.parametrize("aggregate", ["count", "sum", "mean"])
def test_any_number_of_rows_may_be_looked_at_first(count: int, aggregate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    askable = stream_of("4% repeated", 6_000, 7, 0.15)[0].of(NAMES)
    question = Question(aggregate, f"last:{count}")
    found = []
    for few in (1, 50, 1 << 40):
        monkeypatch.setattr("sketches.sampling.answers.last_events._FEW_ROWS", few)
        found.append(askable.series(question, TIMES))
    for other in found[1:]:
        for name in ("value", "lower", "upper", "used"):
            np.testing.assert_array_equal(getattr(other, name), getattr(found[0], name))


@pytest.mark.parametrize("count", [30, 900, 3_000])
def test_limits_of_past_times_hold_what_counted_then(count: int) -> None:
    """Events that came later are not among the newest then."""
    for seed in range(5):
        sample, rows = stream_of("no repeats", 6_000, seed, 0.15)
        exact, found = Exact(rows), sample.of(NAMES).series(Question("sum", f"last:{count}", confidence=SURE), TIMES)
        for at, moment in enumerate(TIMES.tolist()):
            times, weights = (column[exact.times <= moment] for column in (exact.times, exact.weights))
            begin = np.sort(times)[-min(count, len(times)) :][:1]
            truth = float(weights[times >= begin].sum()) if len(times) else 0.0
            assert found.lower[at] <= truth <= found.upper[at]
