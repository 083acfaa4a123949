"""Pickers of sources: of many the largest are listed, and any other is taken by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dashboard.parts import source_picker
from dashboard.parts.source_picker import listed
from tests.support import dashboard_stores
from tests.support.dashboard_stores import SITES, stored_stream
from tests.support.pages import address, asked, fine, metric, opened, text_of, widget


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three sources are many where one is listed."""
    monkeypatch.setattr(source_picker, "LISTED", 1)


def typed(picker: Any, value: Any, *names: str) -> None:
    """Choose a value for which names were typed that the picker does not list."""
    picker.options.extend(names)
    picker.set_value(value).run()


def largest() -> str:
    rows = dashboard_stores.calls()
    return max(rows, key=lambda site: len(rows[site]))


@pytest.mark.usefixtures("many")
def test_of_many_the_largest_are_listed_and_the_chosen() -> None:
    stream = stored_stream(("a", 0, 600), ("b", 0, 600), ("b", 600, 600), ("c", 0, 600))
    assert listed(stream, []) == ["b"]
    assert listed(stream, ["c"]) == ["b", "c"]


@pytest.mark.usefixtures("many")
def test_another_is_taken_by_its_name(small: Path) -> None:
    """It is asked about, and in the address; one that the stream has not is named, and left out."""
    other = sorted({*SITES} - {largest()})[0]
    test = opened(small, aggregate="sum", decay="none")
    picker = widget(test, "multiselect", "Sources")
    assert picker.options == [largest()]
    assert "The largest 1 of 3 are listed" in picker.help
    test = opened(small, aggregate="sum", decay="none", source=[other])
    fine(test)
    assert other in widget(test, "multiselect", "Sources").options
    assert metric(test) == asked(small, sources=(other,))
    assert address(test)["source"] == [other]


@pytest.mark.usefixtures("many")
def test_a_name_that_the_stream_has_not_is_said(small: Path) -> None:
    other = sorted({*SITES} - {largest()})[0]
    test = opened(small, aggregate="sum", decay="none")
    typed(widget(test, "multiselect", "Sources"), [other, "nowhere"], other, "nowhere")
    fine(test)
    assert "has no source `nowhere`" in text_of(test)
    assert metric(test) == asked(small, sources=(other,))


@pytest.mark.usefixtures("many")
def test_a_second_source_is_taken_by_its_name(small: Path) -> None:
    other = sorted({*SITES} - {largest()})[0]
    test = opened(small, decay="none", aggregate="inner-product")
    typed(widget(test, "selectbox", "Second source"), other, other)
    fine(test)
    assert address(test)["other"] == [other]
    typed(widget(test, "selectbox", "Second source"), "nowhere", "nowhere")
    assert "has no source `nowhere`" in text_of(test)
