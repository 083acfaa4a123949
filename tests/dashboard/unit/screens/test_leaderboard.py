"""The page Leaderboard: all groups ranked as the store ranks them, and how each has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dashboard.asking.view import View
from dashboard.screens import leaderboard
from sketches.question import Question
from store import Store
from store.serving.split_change import SplitChange
from tests.support import wide_stores
from tests.support.dashboard_stores import CALLS, LATENCIES, SITES
from tests.support.pages import NEWEST, address, charts, column, fine, opened, text_of, widget
from tests.support.wide_stores import PATHS, REQUESTS


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wide_stores.build(tmp_path_factory.mktemp("wide"))


def test_all_groups_are_ranked_with_their_change(wide: Path) -> None:
    """The table is the store's split, all of it; the change is against another decay, or a time before."""
    test = fine(opened(wide, "leaderboard", stream=REQUESTS, aggregate="mean", by="path", decay="window:10m"))
    store = Store(wide)
    now, before = (
        store.split(REQUESTS, Question("mean", decay), by="path", top=99) for decay in ("window:10m", "none")
    )
    table = test.dataframe[0].value
    assert table["path"].tolist() == [place.name for place in now.places]
    assert table["estimate"].tolist() == pytest.approx([place.estimate for place in now.places])
    assert table["place"].tolist() == ["tie" if place.tie else "clear" for place in now.places]
    then = {place.name: place.estimate for place in before.places}
    assert table["no fading"].tolist() == pytest.approx([then[name] for name in table["path"]])
    changes = [place.estimate - then[place.name] for place in now.places]
    assert table["change"].tolist() == pytest.approx(changes)
    (bars,) = charts(test)
    assert column(bars["data"][0]["x"]) == pytest.approx([place.estimate for place in now.places])
    widget(test, "toggle", "Smallest first").set_value(True).run()
    assert fine(test).dataframe[0].value["path"].tolist()[0] == now.places[-1].name
    widget(test, "selectbox", "Change").set_value("times").run()
    widget(test, "selectbox", "So long before").set_value("1h").run()
    assert "1 h before" in fine(test).dataframe[0].value
    assert (address(test)["compare"], address(test)["shift"]) == (["times"], ["1h"])


def test_sources_are_ranked_where_nothing_else_is_chosen(small: Path) -> None:
    test = fine(opened(small, "leaderboard", stream=CALLS, aggregate="count", decay="none"))
    assert sorted(test.dataframe[0].value["source"].tolist()) == sorted(SITES)
    assert "ranked by source" in text_of(test)
    nothing = fine(opened(small, "leaderboard", stream=LATENCIES))
    assert "There is nothing to rank" in text_of(nothing)


def test_a_time_before_is_counted_back_from_the_as_of_time(small: Path) -> None:
    stream = Store(small).catalogue().streams[CALLS]
    name, other = leaderboard.other_side(View(CALLS, compare="times", shift=("1h",)), stream)
    assert (name, other.as_of) == ("1 h before", str(NEWEST - 3600))
    pinned = View(CALLS, compare="times", shift=("1h",), as_of="1700000000")
    assert leaderboard.other_side(pinned, stream)[1].as_of == str(1_700_000_000 - 3600)


def test_a_change_is_real_where_the_intervals_do_not_overlap(wide: Path) -> None:
    """A group that was not there before has no change."""
    now = Store(wide).split(REQUESTS, Question("mean"), by="path").split
    assert not SplitChange.of(now, now).certain.any()
    near = replace(now, value=now.value + 1e-3)  # within the intervals
    assert not SplitChange.of(near, now).certain[now.lower < now.upper].any()
    far = replace(now, value=now.value + 1e4, lower=now.lower + 1e4, upper=now.upper + 1e4)
    change = SplitChange.of(far, now)
    assert change.certain.all()
    assert change.change.tolist() == pytest.approx([1e4] * len(PATHS))
    assert change.confidence == pytest.approx(2 * now.confidence - 1)
    fewer = replace(now, names=now.names[1:], value=now.value[1:], lower=now.lower[1:], upper=now.upper[1:])
    found = SplitChange.of(now, fewer)
    assert np.isnan(found.change).tolist() == [True, *[False] * (len(PATHS) - 1)]
