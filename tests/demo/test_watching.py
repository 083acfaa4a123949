"""The fire alarm of quiet gateways: the centre is on the side of what they have, and hears of few."""

from __future__ import annotations

from pathlib import Path

from demo.watching import NEW_YEAR, SHARE, run


def test_the_alarm_goes_when_it_burns(tmp_path: Path) -> None:
    """Above the threshold in the hours in which the exact share is, without Java."""
    told: list[str] = []
    found = run(tmp_path / "fire", 5_000, 1, NEW_YEAR, told.append, hours=5)
    assert [state for _, state, _ in found] == ["above" if share >= SHARE else "below" for *_, share in found]
    assert {state for _, state, _ in found} == {"above", "below"}
    assert any("fewer than with a report at every check" in line for line in told)
