"""What Prometheus scrapes: how the store and its streams are, and the recorded questions with their bounds."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Final

from prometheus_client.core import CollectorRegistry, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from dashboard.api.recorded import Recorded
from sketches.errors import WaneError
from sketches.recent import Recent
from store import Store, StoreError
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.query_command import ask
from store.serving.reads.opened_streams import OpenedCatalogue
from store.serving.split_answer import SplitAnswer
from store.serving.staleness import source_states

LOG: Final = logging.getLogger("wane.api")
_OPENMETRICS: Final = "application/openmetrics-text"
_LAGGING: Final = "wane_stream_source_lag_seconds"
Row = tuple[str, float, float, float]  # group, estimate, limits


class Metrics:
    """Answers a scrape. A recorded question is asked once for each commit, however often it is scraped."""

    def __init__(self, recorded: tuple[Recorded, ...] = ()) -> None:
        self._recorded = recorded
        self._answers = Recent[tuple[Row, ...] | str](kept=8 * len(recorded) + 1)

    def text(self, store: Store, accept: str = "") -> tuple[bytes, str]:
        """The metrics of a store, and the type of the text."""
        registry = CollectorRegistry()
        registry.register(_Found([*_health(store.catalogue()), *self._questions(store)]))
        encode, kind = choose_encoder(accept if _OPENMETRICS in accept else "text/plain")
        return encode(registry), kind

    def _questions(self, store: Store) -> Iterator[Metric]:
        failed = GaugeMetricFamily(
            "wane_recorded_failed", "1 where a recorded question cannot be answered", labels=["name"]
        )
        catalogue = store.catalogue()
        some = isinstance(catalogue, OpenedCatalogue)  # whom not all streams are shown, no question names another
        for one in self._recorded:
            if some and one.options.stream not in catalogue.streams:
                continue
            found = self._found(store, one)
            failed.add_metric([one.name], float(isinstance(found, str)))
            if not isinstance(found, str):
                yield from _gauges(one, found)
        if self._recorded:
            yield failed

    def _found(self, store: Store, one: Recorded) -> tuple[Row, ...] | str:
        """The groups of the answer, or why there is none; kept until the next commit, where time alone changes
        nothing and the store can be read."""
        try:
            if (one.options.as_of or "").strip().lower() == "now":
                return _asked(store, one)
            commit = store.catalogue(one.options.stream).name
            key = commit, id(store), one.name
            lasts = partial(_is_at, store, one.options.stream, commit)
            return self._answers.get(key, lambda: _asked(store, one), lambda _: lasts())
        except StoreError as error:
            LOG.warning("record.%s cannot be answered now: %s", one.name, error)
            return str(error)


class _Found(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _is_at(store: Store, stream: str, commit: tuple[str, str]) -> bool:
    return store.catalogue(stream).name == commit


def _asked(store: Store, one: Recorded) -> tuple[Row, ...] | str:
    """The groups of the answer, or why there is none."""
    try:
        found = ask(store, one.options, datetime.now(UTC))
    except StoreError:
        raise
    except WaneError as error:
        LOG.warning("record.%s cannot be answered: %s", one.name, error)
        return str(error)
    if isinstance(found, SplitAnswer):
        return tuple((place.name, place.estimate, place.lower, place.upper) for place in found.places)
    estimate = found.estimate
    return (("", estimate.value, estimate.lower, estimate.upper),)


def _gauges(one: Recorded, rows: tuple[Row, ...]) -> Iterator[Metric]:
    told = one.help or f"recorded question: {one.options.aggregate} of {one.options.stream}"
    labels = ["stream"] if one.label is None else ["stream", one.label]
    for at, (end, words) in enumerate((("", ""), ("_lower", ", lower limit"), ("_upper", ", upper limit")), 1):
        gauge = GaugeMetricFamily(one.metric + end, told + words, labels=labels)
        for row in rows:
            number = row[at]
            assert isinstance(number, float | int)
            if not math.isnan(number):
                gauge.add_metric([one.options.stream, *([] if one.label is None else [row[0]])], number)
        yield gauge


def _health(catalogue: Catalogue) -> Iterator[Metric]:
    """Generation, rows, rejected rows, sources, how far the furthest is behind, and what is missing."""
    yield GaugeMetricFamily("wane_store_generation", "commits of the store so far", catalogue.generation)
    gauges = {
        "rows": "rows that were taken",
        "rejected_rows": "rows that were rejected",
        "sources": "sources that have brought events",
        "silent_sources": "sources that have been silent for longer than they should",
        "largest_lag_seconds": "how far the source that is furthest behind lies behind the newest event",
        "missing_sketches": "sketches that were set aside because they are damaged",
        "newest_event_timestamp_seconds": "time of the newest event",
    }
    families = {
        name: GaugeMetricFamily(f"wane_stream_{name}", told, labels=["stream"]) for name, told in gauges.items()
    }
    for name, stream in sorted(catalogue.streams.items()):
        for gauge, number in _of_stream(stream):
            families[gauge].add_metric([name], number)
    yield from families.values()


def _of_stream(stream: StoredStream) -> Iterator[tuple[str, float]]:
    states = source_states(stream)
    yield "rows", sum(totals.events for totals in stream.by_source.values())
    yield "rejected_rows", 0 if stream.rejected is None else stream.rejected.rows
    yield "sources", len(stream.by_source)
    yield "silent_sources", sum(state.stale for state in states)
    yield "largest_lag_seconds", max((state.lag for state in states), default=0.0)
    yield "missing_sketches", len(stream.set_aside)
    newest = stream.newest(stream.sources)
    if newest is not None:
        yield "newest_event_timestamp_seconds", newest * stream.unit.numerator / stream.unit.denominator
