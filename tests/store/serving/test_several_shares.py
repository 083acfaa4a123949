"""Several shares of a quantile in one question: none of them is left out, whatever splits the answer."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from sketches import Question, Sample
from sketches.errors import QuestionError, UnanswerableError
from store import Store
from tests.store.serving.test_wide import put
from tests.support.stores import STREAM, wide_parts
from tests.support.wide import NAMES, SPAN, Wide, requests
from wane import main

DAY = 86_400
SHARES = (0.5, 0.9, 0.25)
ASKED = Question("quantile", "exp:half_life=50000s", as_of=SPAN, phis=SHARES)


@pytest.fixture(scope="module")
def wide() -> Wide:
    return requests(8, 3_000)


@pytest.fixture(scope="module")
def whole(wide: Wide, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return put(tmp_path_factory.mktemp("whole") / "wane.duckdb", wide_parts(wide, NAMES, DAY))


@pytest.fixture(scope="module")
def thinned(wide: Wide, tmp_path_factory: pytest.TempPathFactory) -> Store:
    accuracy = {"epsilon": 0.3, "detail": 1, "seed": 3}
    return put(tmp_path_factory.mktemp("thinned") / "wane.duckdb", wide_parts(wide, NAMES, DAY, **accuracy))


def at(phi: float) -> Question:
    return replace(ASKED, phi=phi, phis=())


@pytest.mark.parametrize("by", ["path", "source"])
def test_a_split_answers_at_every_share(whole: Store, by: str) -> None:
    """The groups are in the order of the first share, and each has all; all others together too."""
    found = whole.split(STREAM, ASKED, by=by, top=2, others=True).as_dict()
    alone = {phi: whole.split(STREAM, at(phi), by=by, top=99) for phi in SHARES}
    first = [place.value for place in alone[SHARES[0]].places][:2]
    assert [(item["value"], item["phi"]) for item in found["items"]] == [(one, phi) for one in first for phi in SHARES]
    for item in found["items"]:
        [same] = [place for place in alone[item["phi"]].places if place.value == item["value"]]
        assert (item["estimate"], item["lower"], item["upper"]) == (same.estimate, same.lower, same.upper)
    assert [one["phi"] for one in found["others"]] == list(SHARES)
    assert found["others"][0]["estimate"] < found["others"][1]["estimate"]


def test_the_intervals_of_all_shares_hold_together(wide: Wide, thinned: Store) -> None:
    """They are those of single shares at the confidence that is left of it for each."""
    found = thinned.split(STREAM, ASKED, by="path", top=99)
    confidence = thinned.split(STREAM, at(0.5), by="path").split.confidence
    assert found.split.confidence == confidence < 1.0
    careful = 1.0 - (1.0 - confidence) / len(SHARES)
    for phi, one in zip(SHARES, found.shares, strict=True):
        alone = thinned.split(STREAM, replace(at(phi), confidence=careful), by="path").split
        assert one.split.lower.tolist() == alone.lower.tolist()
        assert one.split.upper.tolist() == alone.upper.tolist()
        truths = wide.exact_by(at(phi), "path")
        for place in one.places:
            assert place.lower <= truths[place.value] <= place.upper


def test_the_command_line_prints_every_share(whole: Store, capsys: pytest.CaptureFixture[str]) -> None:
    about = ["query", "--store", str(whole.path), "--stream", STREAM, "--aggregate", "quantile", "--by", "path"]
    about += ["--phi", "0.5", "--phi", "0.9", "--top", "2"]
    assert main([*about, "--json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [item["phi"] for item in items] == [0.5, 0.9, 0.5, 0.9]
    assert main(about) == 0
    printed = capsys.readouterr().out.splitlines()
    for item in items:
        [line] = [line for line in printed if f"{item['value']} " in line and f" {item['phi']:g} " in line]
        assert f"{item['estimate']:g}"[:5] in line


def test_what_gives_one_series_refuses_several_shares(whole: Store, wide: Wide) -> None:
    """It says how they are asked; the first of them was answered, and no word said of the others."""
    with pytest.raises(QuestionError, match=r"0\.5, 0\.9, 0\.25; one series"):
        whole.series(STREAM, ASKED, [SPAN])
    with pytest.raises(QuestionError, match=r"0\.5, 0\.9, 0\.25; one series"):
        whole.series_by(STREAM, ASKED, [SPAN], "path")
    sketch = Sample.build(wide.events())
    for asked in (lambda: sketch.answer(ASKED), lambda: sketch.series(ASKED, np.array([SPAN]))):
        with pytest.raises(UnanswerableError, match="at one share at a time"):
            asked()
