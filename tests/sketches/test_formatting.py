"""Numbers, sizes and times read well at every size, and a printed interval contains the computed one."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sketches.formatting import (
    calendar_time,
    counted,
    limit_texts,
    listed,
    moment_text,
    number_text,
    numbered_moment_text,
    outward,
    percent_text,
    row_text,
    size_text,
)
from sketches.units import SECOND, TimeUnit

MILLI = TimeUnit(1, 1000)
MINUTE = TimeUnit(60, 1)
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, "no data"),
        (math.inf, "unbounded"),
        (-math.inf, "minus unbounded"),
        (0.0, "0"),
        (-12.5, "-12.5"),
        (999_999.4, "999,999"),
        (1e6, "1,000,000"),
        (-1234567.8, "-1,234,568"),
        (1e15, "1e+15"),
        (1e300, "1e+300"),
        (1e-300, "1e-300"),
        (1234.56789, "1,234.57"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    """Six digits, whole numbers from a million on, and a word where there is no number."""
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0%"), (1.0, "100%"), (1e-300, "1e-298%"), (-0.25, "-25%"), (0.9999, "99.99%"), (math.nan, "no data")],
)
def test_shares_are_per_cent(share: float, text: str) -> None:
    """Six digits, too; NaN is the same word as elsewhere."""
    assert percent_text(share) == text


def read(text: str) -> float:
    """A printed number as a person takes it."""
    bare = text.replace(",", "")
    return float(Decimal(bare[:-1]) / 100) if bare.endswith("%") else float(bare)


@given(st.floats(-1e308, 1e308))
@example(0.1 + 0.2)
@example(1_234_567.2)
def test_printed_limits_hold_all_that_the_limits_hold(limit: float) -> None:
    """Read back, the lower one is not above and the upper one not below what it was."""
    low, high = limit_texts(limit, limit)
    assert read(low) <= limit <= read(high)
    assert math.isclose(read(low), limit, rel_tol=1.1e-5, abs_tol=1e-320)


@given(st.floats(0, 1))
@example(0.1234567)
@example(0.3)
def test_printed_limits_of_shares_do_too(share: float) -> None:
    """In per cent, which moves the point by two places."""
    low, high = limit_texts(share, share, percent_text)
    assert low.endswith("%")
    assert high.endswith("%")
    assert read(low) <= share <= read(high)


def test_limits_that_are_no_numbers_are_words() -> None:
    """An interval may be open at one end, or unknown."""
    assert limit_texts(-math.inf, math.inf) == ("minus unbounded", "unbounded")
    assert limit_texts(math.nan, math.nan, percent_text) == ("no data", "no data")


@given(st.floats(-1e308, 1e308), st.booleans())
@example(999_999.7, True)
@example(-1e15 - 0.5, False)
@example(5e-324, False)
def test_a_limit_is_rounded_outward_and_no_further_than_its_digits(limit: float, up: bool) -> None:
    """Never inward; by less than the last of six digits, or of the whole number; and again it stays where it is."""
    found = outward(limit, up=up)
    assert found >= limit if up else found <= limit
    assert abs(found - limit) <= (1 if 1e6 <= abs(limit) < 1e15 else max(1e-5 * abs(limit), 5e-324))
    assert outward(found, up=up) == found


@pytest.mark.parametrize(
    ("limit", "down", "up"),
    [
        (27.31414, 27.3141, 27.3142),
        (-27.31414, -27.3142, -27.3141),
        (1_234_567.5, 1_234_567.0, 1_234_568.0),
        (0.1, 0.1, 0.1),
        (12.1, 12.1, 12.1),
        (0.0, 0.0, 0.0),
        (1e22, 1e22, 1e22),
        (math.inf, math.inf, math.inf),
        (-math.inf, -math.inf, -math.inf),
    ],
)
def test_a_limit_of_few_digits_stays(limit: float, down: float, up: float) -> None:
    """It is not moved because its binary form is slightly off."""
    assert (outward(limit, up=False), outward(limit, up=True)) == (down, up)
    assert math.isnan(outward(math.nan, up=True))


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (999_499, "999 kB"),
        (999_501, "1 MB"),
        (1e6, "1 MB"),
        (999.6e6, "1 GB"),
        (1e300, "1e+291 GB"),
        (-1, "-1 B"),
    ],
)
def test_sizes(count: float, text: str) -> None:
    """Three digits, in the largest unit of which there is one."""
    assert size_text(count) == text


def test_counts_have_their_noun_in_singular_or_plural() -> None:
    """None and many are plural; thousands are set apart."""
    assert [counted(count, "row") for count in (0, 1, 2, 1234)] == ["0 rows", "1 row", "2 rows", "1,234 rows"]
    assert [counted(count, "epoch is", "epochs are") for count in (1, 3)] == ["1 epoch is", "3 epochs are"]


def test_lists_end_with_how_many_more_there_are() -> None:
    """Only where some are left out."""
    assert [listed(names) for names in ([], ["a"], ["a", "b", "c"])] == ["", "a", "a, b, c"]
    assert listed(["a", "b", "c", "d"]) == "a, b, c and 1 more"
    assert listed(["a", "b", "c", "d"], most=1) == "a and 3 more"


def test_a_row_is_shown_as_it_was_found() -> None:
    """Columns by name, a missing one as such; text that had no columns as it is."""
    assert row_text({"id": "7", "t": None, "v": 2.5}) == "id '7', t missing, v 2.5"
    assert row_text("7;;2.5") == "7;;2.5"


@pytest.mark.parametrize(
    ("moment", "unit", "text"),
    [
        (0, SECOND, "1970-01-01 00:00:00 UTC"),
        (1_700_000_000_999, MILLI, "2023-11-14 22:13:20 UTC"),
        (28_333_333, MINUTE, "2023-11-14 22:13:00 UTC"),
        (-1, SECOND, "1969-12-31 23:59:59 UTC"),
        (1 << 62, SECOND, str(1 << 62)),
        (None, SECOND, "nothing"),
    ],
)
def test_moments_as_text(moment: int | None, unit: TimeUnit, text: str) -> None:
    """A time of the stream as a date, whatever its unit, and as the number where the calendar ends."""
    assert moment_text(moment, unit) == text


def test_a_moment_can_carry_its_number() -> None:
    """In the unit of the stream; outside the calendar the number stands alone."""
    assert numbered_moment_text(1_700_000_000_999, MILLI) == "2023-11-14 22:13:20 UTC (1700000000999)"
    assert numbered_moment_text(1 << 62, MILLI) == str(1 << 62)


def test_times_follow_the_zone_through_the_change_of_the_clocks() -> None:
    """Berlin skips 02:30 on the last Sunday of March, and has 02:30 twice on that of October."""
    spring, autumn = 1_774_744_200, 1_792_888_200  # 00:30 UTC of both days in 2026
    assert moment_text(spring, SECOND, BERLIN) == "2026-03-29 01:30:00 CET"
    assert moment_text(spring + 3600, SECOND, BERLIN) == "2026-03-29 03:30:00 CEST"
    assert moment_text(autumn, SECOND, BERLIN) == "2026-10-25 02:30:00 CEST"
    assert moment_text(autumn + 3600, SECOND, BERLIN) == "2026-10-25 02:30:00 CET"


def test_outside_the_calendar_of_a_zone_there_is_no_time() -> None:
    """The first moment of the year 1 in UTC is still the year 0 in New York."""
    first = -62_135_596_800
    assert calendar_time(first, SECOND) == datetime(1, 1, 1, tzinfo=UTC)
    assert calendar_time(first, SECOND, ZoneInfo("America/New_York")) is None
    assert moment_text(first, SECOND, ZoneInfo("America/New_York")) == str(first)
