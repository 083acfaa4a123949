"""Hostile addresses and data: they are shown as text or refused in a sentence, and nothing in them is executed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from sketches import Events, Sample
from store import EpochSketches, Reject, Run, SketchTables, Stream, commit
from tests.support import dashboard_stores
from tests.support.browser import Server, View, serving
from tests.support.polygons import as_band, corners_of
from tests.support.stores import NOON

START = 1_767_052_800
EPOCH = 3600
HACK = "window.__hacked=1"
EVIL = (
    f'<img src=x onerror="{HACK}">',
    f'<a href="javascript:{HACK}">here</a>',
    "![x](http://example.invalid/x.png)",
    f"[a](javascript:{HACK})",
    r"$\LaTeX$ and $$x^2$$ :material/home: :red[red]",
    "two\nlines\tand\u2028more",
    "\u202eright to left\u202c",
    "long " * 60,
)


def harmless(view: View) -> None:
    """Text from outside is still only text."""
    view.settle().check()
    for trace in (
        "img[src=x]",
        "a[href^='javascript:']",
        "[src*='example.invalid']",
        "[href*='example.invalid']",
        ".katex",
    ):
        assert view.page.locator(f"[data-testid=stApp] {trace}").count() == 0, trace


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (
            {
                "stream": "<script>alert(1)</script>",
                "decay": "expr:__import__('os').system('x')",
                "phi": "1e308",
                "as-of": "9" * 30,
                "top": "1e9",
                "confidence": "nan",
                "zone": "../../etc/passwd",
                "window": "9" * 400 + "d",
                "<img src=x onerror=window.__hacked=1>": "1",
            },
            [
                "There is no stream <script>alert(1)</script> in this store.",
                "expr:__import__('os').system('x')",
                "phi = 1e308",
                "as-of = 999",
                "top = 1e9",
                "confidence = nan",
                "there is no such time zone",
                "window = 999",
                "The address has <img src=x onerror=window.__hacked=1>, which means nothing here.",
            ],
        ),
        (
            {
                "stream": "calls",
                "source": [EVIL[2], EVIL[3], EVIL[4]],
                "family": EVIL[0],
                "other": EVIL[1],
                "decay": "x" * 10_000,
                "shift": ["1d"] * 300,
                "aggregate": EVIL[3],
            },
            [
                EVIL[2],
                EVIL[3],
                EVIL[0],
                EVIL[1],
                "decay = xxxx",
                "shift = 1d",
                "more than 700 characters or 200 values",
            ],
        ),
    ],
    ids=["absurd values", "markup"],
)
def test_a_hostile_address_is_answered_in_words(
    view: View, parameters: dict[str, str | list[str]], said: list[str]
) -> None:
    """Each parameter that cannot be taken is named as text, and the page works with what is left."""
    view.open(**parameters)
    told = view.text
    for part in said:
        assert part in told, f"{part!r} is not in {told}"
    assert len(view.drawn()[-1]) > 1
    harmless(view)
    view.change(view.page.get_by_role("radio", name=re.compile("^Last ")).first.click)
    assert "The address" not in view.text
    harmless(view)


def test_a_hostile_value_that_is_taken_is_shown_as_text(view: View) -> None:
    """What may be any text, such as a value asked for, stays text in heading, sentence and command."""
    value = " ".join(EVIL[:5])
    view.open(stream="visits", aggregate="frequency", value=value)
    assert value in view.text.replace("\N{WORD JOINER}", ""), view.text
    assert view.command[-1].removeprefix("--value=") == value
    harmless(view)


def epochs_of(
    values: list[str] | None, sources: tuple[str, ...], size: int = 40, epsilon: float = 0.2
) -> list[EpochSketches]:
    """Three epochs at every source; without values they are numbers."""
    found = []
    for number, source in enumerate(sources):
        for epoch in range(3):
            ids = np.arange(size) + 100_000 * number + 10_000 * epoch
            t = START + epoch * EPOCH + np.arange(size) * 2400 // size
            v = np.array(ids % 50) if values is None else np.array([values[one % len(values)] for one in ids], object)
            events = Events.of(ids, t, v, np.ones(size, np.int64))
            sketch = Sample.build(events, epsilon=epsilon)
            found.append(EpochSketches(source, int(t[0]), EPOCH, size, float(size), int(t[0]), int(t[-1]), [sketch]))
    return found


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A store with hostile sources, keys, units and rejected rows; one stream is empty, one has a damaged epoch."""
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / "wane.duckdb"
    rejects = [Reject(EVIL[0], 3, [{EVIL[1]: EVIL[2]}, EVIL[3]])]
    units: dict[str, object] = {"value_unit": EVIL[0], "weight_unit": EVIL[2]}
    keyed = Stream("pages", EPOCH, settings={"kind": "key", **units})
    commit(path, Run(keyed, SketchTables.of(epochs_of(list(EVIL), EVIL)), NOON, NOON, rejects=rejects))
    commit(path, Run(Stream("readings", EPOCH, settings=units), SketchTables.of(epochs_of(None, EVIL[:3])), NOON, NOON))
    with dashboard_stores.short_segments():  # one an epoch
        commit(path, Run(Stream("damaged", EPOCH), SketchTables.of(epochs_of(None, ("one",))), NOON, NOON))
        lossy = epochs_of(None, ("two",), 2000, 0.9)
        commit(path, Run(Stream("gappy", EPOCH), SketchTables.of(lossy), NOON, NOON))
    commit(path, Run(Stream("silent", EPOCH), SketchTables.of([]), NOON, NOON))
    assert dashboard_stores.damage(path, START + EPOCH + 1000, "gappy") == 1
    assert dashboard_stores.damage(path, START + EPOCH, "damaged") == 1
    with serving(path, folder / "log") as found:
        yield found


def test_hostile_data_is_shown_as_text(opened: Callable[..., View], hostile: Server) -> None:
    """Sources, keys, units and rejected rows are text in controls, figures and tables."""
    view = opened(hostile).open(stream="pages", decay="exp:half_life=1h")
    view.figure("explore")
    for name, figure in (("Top values", "top-values"), ("Health", "lag")):
        view.to(name).figure(figure)
        drawn = view.page.locator(f".st-key-figure-{figure} .js-plotly-plot").text_content() or ""
        assert "<img src=x onerror=" in drawn
        assert "![x](http://example.invalid/x.png)" in drawn
        harmless(view)
    view.to("Explore").page.get_by_role("combobox", name="Sources", exact=True).click()
    view.page.get_by_role("option").first.wait_for()
    assert EVIL[0] in view.text
    view.page.get_by_role("option", name=EVIL[0]).click()
    view.page.keyboard.press("Escape")
    view.page.wait_for_function("() => location.search.includes('source=')")
    assert EVIL[0] in view.settle().page.get_by_test_id("stMain").inner_text()
    harmless(view)


def test_a_missing_epoch_is_a_gap(opened: Callable[..., View], hostile: Server) -> None:
    """Explore says that it is incomplete and draws nothing where the epoch is missing; Health names the epoch."""
    view = opened(hostile).open(stream="damaged", decay="exp:half_life=10m")
    view.until("Incomplete: 1 epoch is missing")
    figure = view.figure()
    assert "missing" in figure["annotations"]
    line = next(trace for trace in figure["data"] if trace["name"] in ("estimate", "exact"))
    known = [value is not None for value in line["y"]]
    assert known[0]
    assert not all(known)
    view.to("Health").page.get_by_role("button", name="Check every sketch").click()
    view.until("2 epochs cannot answer.")  # one of this stream, one of another


def test_no_band_is_drawn_through_a_gap(opened: Callable[..., View], hostile: Server) -> None:
    """What the browser fills is one closed path for each stretch of the series, and none covers a gap."""
    view = opened(hostile).open(stream="gappy", decay="window:10m", aggregate="mean")
    band = next(trace for trace in view.figure()["data"] if "interval" in str(trace["name"]))
    stretches = [as_band(corners)[0] for corners in corners_of(band["x"], band["y"])]
    assert len(stretches) >= 2
    paths, ends = view.page.locator(".st-key-figure-explore .js-plotly-plot").evaluate(
        """(box, stretches) => [
            Array.from(box.querySelectorAll('.cartesianlayer path.js-fill')).map(path => path.getAttribute('d')),
            stretches.map(places => [places[0], places.at(-1)].map(place => box._fullLayout.xaxis.d2p(place))),
        ]""",
        stretches,
    )
    filled = [part for path in paths for part in re.findall(r"M[^MZ]*Z?", path)]
    assert all(part.endswith("Z") for part in filled)
    spans = [[float(x) for x in re.findall(r"[ML](-?[\d.]+),", part)] for part in filled]
    assert len(spans) == len(stretches)
    for xs, (first, last) in zip(sorted(spans, key=min), ends, strict=True):
        assert first - 1 <= min(xs) <= max(xs) <= last + 1
