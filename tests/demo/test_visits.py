"""The generated requests keep what they promise: a few pages have most, and three things happened that can be found."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from demo.visits import LAUNCHED, SCHEMA, SITES, SOUGHT, Visits, files, generate
from sketches.errors import WaneError

END = 1_768_003_200


@pytest.fixture(scope="module")
def data() -> Visits:
    return generate(60_000, seed=1, end=END)


def test_same_seed_same_rows() -> None:
    """Two runs agree in every column; another seed gives other requests."""
    one, two, other = (generate(5_000, days=2, seed=seed, end=END) for seed in (3, 3, 4))
    for field in fields(Visits):
        assert np.array_equal(getattr(one, field.name), getattr(two, field.name)), field.name
    assert not np.array_equal(one.latency_ms, other.latency_ms)


def test_every_request_once_within_the_span(data: Visits) -> None:
    """As many different requests as asked for, of three sites, which arrive after they were made."""
    assert len(np.unique(data.request_id)) == len(data.at) == 60_000
    assert data.begin <= data.at.min() < data.at.max() < data.end
    assert np.array_equal(np.unique(data.site), sorted(SITES))
    assert (data.arrived > data.at).all()
    assert (np.diff(data.arrived) >= 0).all()


def test_a_few_pages_have_most_requests_and_long_names_are_whole(data: Visits) -> None:
    """Ten of some four hundred pages have two fifths; no name is cut."""
    pages, count = np.unique(data.page, return_counts=True)
    assert len(pages) > 300
    assert 0.35 < np.sort(count)[-10:].sum() / len(data.page) < 0.75
    assert LAUNCHED in pages
    assert any(page.startswith("/shop/garden-furniture-and-outdoor-kitchens/") for page in pages)


def test_what_happened_can_be_found(data: Visits) -> None:
    """The new page is only read after its launch; the robot comes once, to one site; one site is slow for a while."""
    new, robot = data.page == LAUNCHED, data.page == SOUGHT
    assert data.at[new].min() >= data.launch.begin
    assert 0.09 < new[data.at >= data.launch.begin].mean() < 0.15
    assert set(data.site[robot]) == {data.robot.site}
    assert data.at[robot].min() >= data.robot.begin
    assert data.at[robot].max() < data.robot.end
    assert set(data.status[robot]) == {404}
    there = data.site == data.slow.site
    slow = there & (data.at >= data.slow.begin) & (data.at < data.slow.end)
    assert np.median(data.latency_ms[slow]) > 2 * np.median(data.latency_ms[there & ~slow])


def test_files_have_all_rows_in_order(data: Visits) -> None:
    """The files are the rows, cut by the time of their arrival."""
    cut = files(data, 6)
    assert [name for name, _ in cut] == [f"visits-{number:04d}.parquet" for number in range(6)]
    assert all(table.schema == SCHEMA for _, table in cut)
    assert np.concatenate([table["request_id"].to_numpy() for _, table in cut]).tolist() == data.request_id.tolist()


@pytest.mark.parametrize("wrong", [{"requests": 0}, {"days": 0}])
def test_impossible_sizes_are_refused(wrong: dict[str, int]) -> None:
    """The message names the parameter and the value."""
    with pytest.raises(WaneError, match=r"(requests|days) is 0; it must be at least 1"):
        generate(**{"requests": 10, **wrong}, seed=1, end=END)
