"""The page Health: ingest runs, how far each source lags behind, late and rejected rows, missing epochs, sizes."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any

import streamlit as st

from dashboard import wording, words
from dashboard.asking import session
from dashboard.asking.answer_cache import AnswerCache
from dashboard.figures.bars import bars
from dashboard.parts import components, controls, notices
from dashboard.parts.components import Table
from dashboard.parts.watched import watched
from sketches.durations import human_duration
from sketches.formatting import (
    calendar_time,
    counted,
    listed,
    moment_text,
    number_text,
    percent_text,
    row_text,
    size_text,
)
from store.serving.catalogue import Catalogue, StoredStream
from store.serving.staleness import source_states

MOST_SOURCES = 30  # in the chart of lags


def page(answers: AnswerCache, catalogue: Catalogue) -> None:
    with st.sidebar:
        stored = controls.stream(catalogue, sources=False)
        controls.display(None)
    zone = wording.zone(session.view().zone)
    st.markdown("#### Health of the store")
    st.caption(wording.quoted(answers.path.name), help=wording.quoted(answers.path))
    with components.guarded():
        found = answers.report()
        stream = next(one for one in found["streams"] if one["stream"] == stored.name)
        _numbers(found, stream)
        _events(answers, stored)
        _state(stream, stored)
        watched(answers.path, stored.name, int(datetime.now(UTC).timestamp()), zone)
        _lags(stored, zone)
        _runs(stream, zone)
        left, right = st.columns(2, gap="medium")
        with left:
            _rejects(stream)
        with right:
            _families(stream)
        _resolution(stream)
        _gaps(stream)
        _check(answers)
        components.exports("health", lambda: run_table(stream), lambda: found)


def _numbers(found: dict[str, Any], stream: dict[str, Any]) -> None:
    with st.container(horizontal=True):
        st.metric("Store", size_text(found["file_bytes"]), border=True)
        st.metric("Generation", f"{found['generation']:,}", border=True, help=words.explained("Generation"))
        st.metric(
            "Rows of the stream",
            f"{stream['events']:,}",
            border=True,
            help="Rows that were taken. A row that came twice counts twice here.",
        )
        st.metric("Sources", f"{stream['sources']:,}", border=True)
        usual = words.explained("Epoch", f"Here usually {stream['epoch_text']}.")
        st.metric("Epochs", f"{stream['epochs']:,}", border=True, help=usual)


def _events(answers: AnswerCache, stored: StoredStream) -> None:
    """About how many events the rows are, where a family is stored that counts a repeated row once."""
    with st.spinner("Counting distinct events …", show_time=True):
        answer = answers.distinct_events(stored)
    if answer is None:
        return
    estimate = answer.estimate
    low, high = wording.limits(estimate.lower, estimate.upper, "events")
    st.metric("Distinct events, about", number_text(round(estimate.value)))
    between = f"Between {low} and {high}, with {percent_text(estimate.confidence)} confidence"
    sure = "Exactly so many" if estimate.exact else between
    only = "" if answer.provenance.complete else " Only epochs that can be read are counted."
    st.caption(f"{wording.safe(sure)}: a row that came more than once counts once.{only}")


def _state(stream: dict[str, Any], stored: StoredStream) -> None:
    """Whether anything is missing, was rejected, or has fallen silent."""
    gaps = len(stream["gaps"])
    rejected = sum(one["rows"] for one in stream["rejects"])
    silent = [state for state in source_states(stored) if state.stale]
    if gaps:
        st.error(
            f"{counted(gaps, 'epoch cannot answer', 'epochs cannot answer')}: see below.",
            icon=":material/broken_image:",
        )
    if silent:
        named = listed([f"{state.source} for {human_duration(state.lag)}" for state in silent])
        st.warning(
            f"{len(silent):,} of {counted(len(stored.sources), 'source')} "
            f"{'is' if len(silent) == 1 else 'are'} silent for longer than usual: {wording.safe(named)}.",
            icon=":material/notifications_off:",
        )
    if stored.rejected is not None:
        notices.rejected(stored.rejected)
    elif rejected:
        st.warning(f"{counted(rejected, 'row was', 'rows were')} rejected so far.", icon=":material/rule:")
    if not gaps and not rejected and stored.rejected is None and not silent:
        st.success("Nothing is missing, nothing was rejected, and no source is silent.", icon=":material/check_circle:")


def _lags(stored: StoredStream, zone: tzinfo) -> None:
    """How far each source is behind: the furthest in a chart, all of them in a table."""
    states = source_states(stored)
    if not states:
        return
    latest = states[-1].newest
    st.markdown("**How far each source lags behind the newest event**")
    age = _age(latest, stored)
    shown = states[:MOST_SOURCES]
    all_shown = counted(len(states), "source") if len(shown) < len(states) else ""
    st.caption(
        f"The newest event is of {wording.safe(moment_text(latest, stored.unit, zone))}"
        + (f", {human_duration(age)} ago." if age is not None and age > 1 else ".")
        + (f" The chart shows the {len(shown)} of {all_shown} that are furthest behind." if all_shown else "")
        + " A source counts as silent where nothing has come of it for longer than the stream's setting `stale`; "
        "without it, for longer than an epoch and than twenty times its usual gap."
    )
    unit, size = components.age_unit(states[0].lag)
    figure = bars(
        [state.source for state in shown],
        [state.lag / size for state in shown],
        f"lag, {unit}",
        f"%{{x:.3~g}} {unit}",
        marked=[state.stale for state in shown],
    )
    components.show(figure, "lag", "How far each source lags behind the newest event")
    with st.expander(f"All {counted(len(states), 'source')}", icon=":material/table_rows:"):
        st.dataframe(
            {
                "source": [state.source for state in states],
                "state": ["silent" if state.stale else "well" for state in states],
                "newest event": [moment_text(state.newest, stored.unit, zone) for state in states],
                "lag": [human_duration(state.lag) for state in states],
                "allowed": [human_duration(state.allowed) for state in states],
            },
            hide_index=True,
            alt="All sources with their state, newest event and lag",
        )


def _age(moment: int, stored: StoredStream) -> float | None:
    """Seconds since a time of the stream; None where it lies outside the calendar."""
    at = calendar_time(moment, stored.unit)
    return None if at is None else (datetime.now(UTC) - at).total_seconds()


def _runs(stream: dict[str, Any], zone: tzinfo) -> None:
    st.markdown("**The last ingest runs**")
    if not stream["runs"]:
        st.caption("No run has read anything into this stream yet.")
        return
    head, rows = run_table(stream)
    columns = {name: [row[at] for row in rows] for at, name in enumerate(head)}
    for name in ("started", "finished"):
        columns[name] = [at.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None) for at in columns[name]]
    st.dataframe(
        columns,
        hide_index=True,
        column_config={
            **{name: st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss") for name in ("started", "finished")},
            **{
                name: st.column_config.NumberColumn(format="localized")
                for name in ("rows", "late", "rejected", "conflicts", "sketches")
            },
            "bytes": st.column_config.NumberColumn(format="bytes"),
        },
        alt="The last ingest runs with their rows, late and rejected ones",
    )


def run_table(stream: dict[str, Any]) -> Table:
    """The last runs, newest first."""
    head = ["run", "started", "finished", "rows", "late", "rejected", "conflicts", "sketches", "bytes"]
    return head, [[run[name] for name in head] for run in stream["runs"]]


def _rejects(stream: dict[str, Any]) -> None:
    st.markdown("**Rejected rows**")
    if not stream["rejects"]:
        st.caption("None.")
        return
    st.dataframe(
        {
            "reason": [one["reason"] for one in stream["rejects"]],
            "rows": [one["rows"] for one in stream["rejects"]],
            "for example": [row_text(one["examples"][0]) if one["examples"] else "" for one in stream["rejects"]],
        },
        hide_index=True,
        column_config={"rows": st.column_config.NumberColumn(format="localized")},
        alt="Rejected rows by reason",
    )


def _families(stream: dict[str, Any]) -> None:
    st.markdown("**Sketches by family**")
    families = stream["families"]
    st.dataframe(
        {
            "family": [one["family"] for one in families],
            "sketches": [one["sketches"] for one in families],
            "bytes": [one["bytes"] for one in families],
            "bytes a sketch": [round(one["bytes"] / max(1, one["sketches"])) for one in families],
            "largest": [one["largest"] for one in families],
        },
        hide_index=True,
        column_config={
            "sketches": st.column_config.NumberColumn(format="localized"),
            **{name: st.column_config.NumberColumn(format="bytes") for name in ("bytes", "bytes a sketch", "largest")},
        },
        alt="Sketches by family with their sizes",
    )


def _resolution(stream: dict[str, Any]) -> None:
    """What can still be answered of the past: the older, the coarser."""
    found = stream["resolution"]
    if not found:
        return
    st.markdown("**What the store can still answer, by age**")
    st.caption(
        "How many of the events of that age are kept, the shortest stretch of time that is answered within the "
        "accuracy asked for, and the half-width to expect of a count over one epoch."
    )
    components.show(
        bars([one["age"] for one in found], [100.0 * one["kept"] for one in found], "kept, %", "%{x:.3~g}% kept"),
        "kept",
        "The share of events that is kept, by age",
    )
    st.dataframe(
        {
            "age": [one["age"] for one in found],
            "kept": [f"{100.0 * one['kept']:.3g}%" for one in found],
            "shortest stretch": [
                "any" if one["kept"] == 1.0 else human_duration(one["stretch"] or float("inf")) for one in found
            ],
            "one epoch, all sources": [_width_text(one["epoch"]) for one in found],
            "one epoch, a typical source": [_width_text(one["typical"]) for one in found],
        },
        hide_index=True,
        alt="What the store can still answer, by age",
    )


def _width_text(width: float | None) -> str:
    return "too few events" if width is None else "exact" if width == 0.0 else f"±{100.0 * width:.2g}%"


def _gaps(stream: dict[str, Any]) -> None:
    if not stream["gaps"]:
        return
    st.markdown("**Epochs that cannot answer**")
    st.dataframe(
        {
            "source": [gap["source"] for gap in stream["gaps"]],
            "epoch": [gap["start_text"] for gap in stream["gaps"]],
            "family": [gap["family"] for gap in stream["gaps"]],
            "reason": [gap["reason"] for gap in stream["gaps"]],
        },
        hide_index=True,
        alt="Epochs that cannot answer, and why",
    )


def _check(answers: AnswerCache) -> None:
    """A button that has every payload read: that takes a while."""
    if st.button("Check every sketch", icon=":material/verified:", help="Reads all sketches and checks each one."):
        with st.spinner("Reading and checking every sketch …"):
            streams = answers.checked_report()["streams"]
        gaps = sum(len(stream["gaps"]) for stream in streams)
        sketches = sum(family["sketches"] for stream in streams for family in stream["families"])
        if gaps:
            st.error(f"{counted(gaps, 'epoch')} cannot answer.", icon=":material/broken_image:")
        else:
            st.success(f"All {sketches:,} sketches are whole.", icon=":material/check_circle:")
