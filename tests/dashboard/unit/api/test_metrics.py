"""What Prometheus scrapes equals what the store answers, and settings that cannot be asked are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from dashboard.api import metrics
from dashboard.api.metrics import Metrics
from dashboard.api.recorded import RecordError, read_recorded
from sketches import Question
from store import Store, StoreBusyError
from store.serving.query_command import ask
from tests.support.dashboard_stores import CALLS, LATENCIES, SITES


def scraped(client: TestClient) -> dict[tuple[str, ...], float]:
    """The samples by name and labels."""
    found = client.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(found.text)
        for sample in family.samples
    }


def test_recorded_questions_are_scraped_with_their_bounds(client: TestClient, small: Path) -> None:
    """The estimate and both limits of the question, as `Store.ask` gives them."""
    found = scraped(client)
    answer = Store(small).ask(CALLS, Question("correlated-mean", "exp:half_life=10m", tau="median")).estimate
    for end, number in (("", answer.value), ("_lower", answer.lower), ("_upper", answer.upper)):
        assert found[f"wane_long_calls{end}", CALLS] == pytest.approx(number)


def test_a_split_has_a_label_for_its_groups(client: TestClient, small: Path) -> None:
    """Hostile names of sources travel whole."""
    found = scraped(client)
    split = Store(small).split(CALLS, Question("count", "window:1h", counting="events", per_second=True))
    groups = {key[1]: value for key, value in found.items() if key[0] == "wane_rate_by_source"}
    assert set(groups) == set(SITES)
    for place in split.places:
        assert groups[place.name] == pytest.approx(place.estimate)


def test_health_is_scraped(client: TestClient, small: Path) -> None:
    """Rows, sources and the newest event of every stream."""
    found = scraped(client)
    stream = Store(small).catalogue().streams[CALLS]
    assert found["wane_stream_rows", CALLS] == sum(one.events for one in stream.epochs.values())
    assert found["wane_stream_sources", CALLS] == len(SITES)
    assert found["wane_stream_newest_event_timestamp_seconds", CALLS] == stream.newest(stream.sources)
    assert ("wane_stream_newest_event_timestamp_seconds", "nothing") not in found


def test_a_question_that_cannot_be_answered_is_told_and_stops_no_other(client: TestClient) -> None:
    """The stream has no field of that name; the others are there."""
    found = scraped(client)
    assert found["wane_recorded_failed", "lost"] == 1
    assert found["wane_recorded_failed", "long_calls"] == 0
    assert not any(name.startswith("wane_lost") for name, *_ in found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no recorded question"),
        ("[record]\nx = 1", "must be a table with stream and aggregate"),
        ('[record.x]\naggregate = "sum"', "parameter stream is missing"),
        ('[record.x]\nstream = "calls"\naggregate = "sum"\ndecy = "none"', "there is no parameter 'decy'"),
        ('[record.x]\nstream = "calls"\naggregate = "heavy-hitters"', "a list has no single number"),
        ('[record.x]\nstream = "calls"\naggregate = "quantile"\nphi = [0.1, 0.9]', "a list has no single number"),
        ('[record.Big-Name]\nstream = "calls"\naggregate = "sum"', "letters a-z"),
        ('[record.stream_rows]\nstream = "calls"\naggregate = "sum"', "begins with none of store"),
        ('[record.x]\nstream = "c"\naggregate = "sum"\n[record.x_lower]\nstream = "c"\naggregate = "sum"', "the limit"),
        ("[record.x", "is not TOML"),
        ("\n".join(f'[record.n{at}]\nstream = "c"\naggregate = "sum"' for at in range(201)), "at most 200"),
    ],
)
def test_settings_that_cannot_be_asked_are_refused_before_the_server_starts(
    text: str, said: str, tmp_path: Path
) -> None:
    """The sentence names the file and the table."""
    path = tmp_path / "wane.toml"
    path.write_text(text)
    with pytest.raises(RecordError, match=said) as refused:
        read_recorded(path)
    assert "wane.toml" in str(refused.value)


def metrics_of(path: Path, settings: str) -> Metrics:
    path.write_text(f'[record.seen]\nstream = "{CALLS}"\naggregate = "count"\n{settings}')
    return Metrics(read_recorded(path))


def test_a_store_that_cannot_be_read_for_a_moment_is_asked_again(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process holds it: the next scrape has the answer, not the failure, though there was no commit between."""
    found, store = metrics_of(tmp_path / "wane.toml", ""), Store(small)
    with monkeypatch.context() as held:

        def busy(*_: object) -> None:
            raise StoreBusyError("in use by another process")

        held.setattr(metrics, "ask", busy)
        assert b'wane_recorded_failed{name="seen"} 1.0' in found.text(store)[0]
    assert b'wane_recorded_failed{name="seen"} 0.0' in found.text(store)[0]


def test_what_time_alone_changes_is_not_kept(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of now is asked at every scrape; as of the newest event once for each commit."""
    asked = list[str]()
    monkeypatch.setattr(
        metrics, "ask", lambda store, options, now: asked.append(options.as_of) or ask(store, options, now)
    )
    store = Store(small)
    for settings in ('as_of = "now"', ""):
        found = metrics_of(tmp_path / "wane.toml", settings)
        found.text(store)
        found.text(store)
    assert asked == ["now", "now", None]


def test_a_field_that_is_called_stream_has_another_label(tmp_path: Path) -> None:
    """A label that stands twice would cost Prometheus the whole scrape."""
    (tmp_path / "wane.toml").write_text('[record.a]\nstream = "calls"\naggregate = "count"\nby = "stream"')
    assert [one.label for one in read_recorded(tmp_path / "wane.toml")] == ["by_stream"]


def test_a_role_hears_of_no_question_about_another_stream(small: Path, tmp_path: Path) -> None:
    """Neither its answer nor its name, which may say enough."""
    found, store = metrics_of(tmp_path / "wane.toml", ""), Store(small)
    for streams, told in ((frozenset({CALLS}), True), (frozenset({LATENCIES}), False), (frozenset[str](), False)):
        assert (b"seen" in found.text(store.opened_to(streams))[0]) is told
    gone = tmp_path / "gone.toml"
    gone.write_text('[record.gone]\nstream = "no such"\naggregate = "count"')
    assert b'wane_recorded_failed{name="gone"} 1.0' in Metrics(read_recorded(gone)).text(store)[0]
