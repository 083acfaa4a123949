"""The page Leaderboard: all groups ranked as the store ranks them, and how each has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dashboard.asking.view import View
from dashboard.parts import against
from sketches.estimate import Group
from sketches.question import Question
from store import Store
from store.serving import split_answer
from store.serving.split_answer import SplitAnswer
from store.serving.split_change import SplitChange, changed
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
    bars, dots = charts(test)
    assert column(bars["data"][0]["x"]) == pytest.approx([place.estimate for place in now.places])
    assert column(dots["data"][0]["x"]) == pytest.approx(changes)
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
    name, other = against.other_side(View(CALLS, compare="times", shift=("1h",)), stream)
    assert (name, other.as_of) == ("1 h before", str(NEWEST - 3600))
    pinned = View(CALLS, compare="times", shift=("1h",), as_of="1700000000")
    assert against.other_side(pinned, stream)[1].as_of == str(1_700_000_000 - 3600)


def test_a_change_knows_how_much_of_their_chance_both_answers_share(wide: Path) -> None:
    """So its limits are closer than those of answers that have nothing in common; a group that was not there before
    has no change."""
    store = Store(wide)
    questions = [Question("mean", decay) for decay in ("exp:half_life=20m", "exp:half_life=30m")]
    now, before = ((one, store.split(REQUESTS, one, by="path")) for one in questions)
    found = changed(store, REQUESTS, now, before).change
    apart = SplitChange.of(now[1].split, before[1].split, 0.0).change
    assert (found.upper - found.lower < 0.9 * (apart.upper - apart.lower)).all()
    same = changed(store, REQUESTS, now, now)
    assert not same.certain.any()
    np.testing.assert_allclose(same.change.lower, same.change.upper, atol=1e-4)
    split = now[1].split
    fewer = replace(split, **{name: getattr(split, name)[1:] for name in ("names", "value", "lower", "upper")})
    lost = SplitChange.of(split, fewer, 0.0)
    assert np.isnan(lost.change.value).tolist() == [True, *[False] * (len(PATHS) - 1)]
    assert not lost.certain[0]


def test_the_worst_now_against_before_takes_two_clicks_on_the_page(wide: Path) -> None:
    """One for the aggregate, one for the last of the time against more of it; what is chosen stands in the address."""
    test = fine(opened(wide, "leaderboard", stream=REQUESTS, aggregate="count", by="path", decay="none"))
    widget(test, "button_group", "By").set_value("mean").run()
    offered = against.fitting(Store(wide).catalogue().streams[REQUESTS])
    long = offered[-1][1]
    widget(fine(test), "button_group", "Compare").set_value(against.pair_name(offered[-1])).run()
    found = address(fine(test))
    assert (found["aggregate"], found["against"]) == (["mean"], [f"window:{long}"])
    assert test.dataframe[0].value.columns[6] == f"last {against.human(long)}"


def test_a_name_is_found_by_a_part_of_it(wide: Path) -> None:
    """Ranks stay those among all."""
    test = fine(opened(wide, "leaderboard", stream=REQUESTS, aggregate="mean", by="path", decay="none"))
    whole = test.dataframe[0].value
    wanted = whole["path"].tolist()[2]
    widget(test, "text_input", "Find a path").set_value(wanted.upper()).run()
    (row,) = fine(test).dataframe[0].value.to_dict("records")
    assert (row["rank"], row["path"]) == (3, wanted)


def test_a_sum_under_two_decays_is_not_called_a_change(wide: Path) -> None:
    """They look back on more or less time; means, rates and times before are compared without that remark."""
    for aggregate, more, said in (("count", {}, True), ("mean", {}, False), ("count", {"compare": "times"}, False)):
        told = text_of(fine(opened(wide, "leaderboard", stream=REQUESTS, aggregate=aggregate, by="path", **more)))
        assert ("differ for that reason alone" in told) == said


def test_texts_of_many_sources_are_not_made_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources are texts already; values of fields are worded, each once."""
    worded: list[object] = []
    monkeypatch.setattr(split_answer, "group_text", lambda group: worded.append(group) or str(group))
    many = tuple(f"site-{number}" for number in range(50_000))
    assert _with_names(many).texts.tolist() == list(many)
    assert worded == []
    assert _with_names((None, True, 3)).texts.tolist() == ["None", "True", "3"]
    assert len(worded) == 3


def _with_names(names: tuple[Group, ...]) -> SplitAnswer:
    split = SimpleNamespace(names=names)
    return SplitAnswer(split, None, top=1)  # type: ignore[arg-type]  # only the names are looked at
