"""What each of the other pages shows, in a real browser on a store that was ingested."""

from __future__ import annotations

import math
import re
from urllib.parse import parse_qs, urlsplit

from dashboard import wording
from tests.support.browser import View, wane
from tests.support.polygons import as_band, corners_of

DECAY = "exp:half_life=6h"


def asked(view: View, aggregate: str, *more: str) -> dict[str, object]:
    return wane(
        ["wane", "query", "--store", str(view.server.store), "--stream", "calls", "--decay", DECAY, "--aggregate",
         aggregate, *more]
    )  # fmt: skip


def test_a_click_on_the_threshold_curve_moves_tau(view: View) -> None:
    """The clicked τ and the slider's are in the address, and the share above them is what `wane query` says."""
    view.open("distribution", stream="calls", decay=DECAY)
    assert [trace["name"] for trace in view.figure("quantiles")["data"]][-1] == "estimate"
    curve = view.figure("thresholds")["data"][-1]
    at = len(curve["x"]) // 2
    spot = view.page.locator(".st-key-figure-thresholds .js-plotly-plot").evaluate(
        """(box, at) => {
            const trace = box._fullData[box._fullData.length - 1], {xaxis, yaxis} = box._fullLayout;
            const frame = box.getBoundingClientRect();
            const x = xaxis._offset + xaxis.d2p(trace.x[at]), y = yaxis._offset + yaxis.d2p(trace.y[at]);
            return [frame.left + x, frame.top + y];
        }""",
        at,
    )
    view.page.mouse.move(*spot)
    view.page.locator(".hoverlayer .hovertext").first.wait_for()
    view.page.mouse.click(*spot)
    view.page.wait_for_function("() => location.search.includes('tau=')")
    clicked = tau_of(view)
    assert math.isclose(float(clicked), curve["x"][at], rel_tol=0.2)
    shares = [share_agrees(view)]
    view.slide("τ among the stored values", "ArrowRight")
    view.page.wait_for_function("tau => !location.search.includes(`tau=${tau}`)", arg=clicked)
    assert tau_of(view) != clicked
    shares.append(share_agrees(view))
    assert shares[0] != shares[1]


def tau_of(view: View) -> str:
    return parse_qs(urlsplit(view.page.url).query)["tau"][0]


def share_agrees(view: View) -> str:
    """The share shown, which is that of the command line at the τ of the address."""
    view.until("Share at or above τ").settle()
    for _ in range(20):  # a slider moved twice may redraw twice
        tau = tau_of(view)
        answer = asked(view, "selectivity", f"--tau={tau}")
        estimate, lower, upper = (float(str(answer[name])) for name in ("estimate", "lower", "upper"))
        wanted = wording.estimated(estimate, lower, upper, "share")
        if view.settle().number == wanted and tau_of(view) == tau:
            return wanted
        view.page.wait_for_timeout(500)
    raise AssertionError(f"the page shows {view.number}, not {wanted}, at τ = {tau}")


def test_top_values_have_whiskers_and_ranks(view: View) -> None:
    """A higher φ shortens the list, every bar has whiskers, and the ranks stand under both decays."""
    view.open("top-values", stream="visits", decay=DECAY, against="none")
    bars = view.figure("top-values")
    assert len(bars["labels"]) == len(bars["data"][0]["whiskers"]) == 10
    assert all(label.startswith("/page/") for label in bars["labels"])
    assert max(bars["data"][0]["whiskers"]) > 0
    ranks = view.figure("ranks")
    assert ranks["ticks"] == ["no fading", "half-life 6 h"]
    assert any(trace["y"][0] != trace["y"][1] for trace in ranks["data"])
    answer = wane(view.command)
    assert [item["value"] for item in answer["items"]] == bars["labels"]
    view.slide("Least share φ", "PageUp", 1)
    view.page.wait_for_url(re.compile("share="))
    view.page.wait_for_function(
        "() => document.querySelector('.st-key-figure-top-values .js-plotly-plot')?.layout?.yaxis.ticktext.length < 10"
    )
    fewer = view.settle().figure("top-values")["labels"]
    assert fewer == bars["labels"][: len(fewer)]
    assert [item["value"] for item in wane(view.command)["items"]] == fewer
    view.open("top-values", stream="calls", decay=DECAY, similar="on")
    square = view.figure("similarity")
    assert square["data"][0]["type"] == "heatmap"
    assert len(square["labels"]) == len(square["data"][0]["x"]) >= 2


def test_compare_draws_every_side(view: View) -> None:
    """Decays, sources and times each give two lines or more on the same axes."""
    view.open("compare", stream="calls", decay=DECAY)
    for name, wanted in (("Decays", "no fading"), ("Sources", "north"), ("Times", "1 d before")):
        view.page.get_by_role("radio", name=name).click()
        view.page.wait_for_function(
            "name => document.querySelector('.js-plotly-plot')?.data?.some(one => one.name === name)",
            arg=wanted,
        )
        view.settle()
        lines = [trace for trace in view.figure("compare")["data"] if trace["name"] and len(trace["y"]) > 1]
        drawn = {tuple(trace["y"]) for trace in lines}
        assert len(drawn) >= 2, name
        assert view.page.get_by_test_id("stDataFrame").count() == 1


def test_health_tells_of_runs_rejects_and_sizes(view: View) -> None:
    """Runs, rejected rows with their reasons, sizes by family, and the lag of each source are there."""
    view.open("health", stream="calls")
    view.page.get_by_test_id("stMetric").nth(5).wait_for()
    metrics = dict(zip(
        view.page.get_by_test_id("stMetricLabel").all_inner_texts(),
        view.page.get_by_test_id("stMetricValue").all_inner_texts(),
        strict=True,
    ))  # fmt: skip
    assert metrics["Sources"] == "5"
    assert re.fullmatch(r"[\d.]+ [kM]B", metrics["Store"])
    rows = int(metrics["Rows of the stream"].replace(",", ""))
    assert rows > 20_000
    assert 0 < int(metrics["Distinct events, about"].replace(",", "")) <= rows
    assert re.search(r"[\d,]+ of [\d,]+ rows \([\d.]+%\) were rejected, most of them because: ", view.text)
    tables = view.page.locator("[data-testid=stDataFrame] canvas table")
    tables.nth(3).wait_for(state="attached")
    told = "\n".join(tables.all_text_contents())
    for part in ("sample", "bytes a sketch", "rejected", "2106"):
        assert part in told, told
    assert len(view.figure("lag")["labels"]) == 5
    view.page.get_by_role("button", name="Check every sketch").click()
    view.until(re.compile(r"All \d+ sketches are whole"))


def test_audit_puts_exact_answers_on_the_chart(view: View) -> None:
    """The button reads the raw files, and the dots lie where the estimates are."""
    view.open("audit", stream="calls", decay=DECAY)
    view.page.get_by_role("button", name="Check against the raw files").click()
    view.until(re.compile(r"\d+ of 24")).settle()
    figure = view.figure("audit")
    dots = next(trace for trace in figure["data"] if trace["name"] == "exact answers")
    ((places, low, high),) = (
        as_band(corners) for corners in corners_of(figure["data"][0]["x"], figure["data"][0]["y"])
    )
    lower, upper = dict(zip(places, low, strict=True)), dict(zip(places, high, strict=True))
    assert len(dots["y"]) == 24
    line = next(trace for trace in figure["data"] if trace["name"] == "estimate")
    unknown = {at for at, value in zip(line["x"], line["y"], strict=True) if value is None}
    assert len(unknown) <= 2  # at the first event: none that counts there need be in the sample
    assert unknown.isdisjoint(places)
    for at, exact in zip(dots["x"], dots["y"], strict=True):
        if at in unknown:
            continue
        width = upper[at] - lower[at]
        assert lower[at] - width <= exact <= upper[at] + width
    inside = re.fullmatch(r"(\d+) of 24", view.number)
    assert inside is not None
    assert int(inside[1]) >= 18
