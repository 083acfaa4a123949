"""Whether all is well: ingest runs, how far each source lags, late and rejected rows, missing epochs, sizes."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any

import streamlit as st

from dashboard import controls, figures, parts, state, words
from dashboard.desk import Desk
from store.catalogue import Catalogue, StreamHeld
from store.report import report

MOST_SOURCES = 30


def page(desk: Desk, catalogue: Catalogue) -> None:
    with st.sidebar:
        held = controls.stream(catalogue, sources=False)
        controls.display(None)
    view = state.view()
    zone = words.zone(view.zone)
    st.markdown("#### Health of the store")
    st.caption(words.quoted(desk.path.name), help=words.quoted(desk.path))
    with parts.guarded():
        told = desk.report()
        stream = next(one for one in told["streams"] if one["stream"] == held.name)
        _numbers(told, stream)
        _verdicts(stream)
        _lags(stream, held, zone)
        _runs(stream, zone)
        left, right = st.columns(2, gap="medium")
        with left:
            _rejects(stream)
        with right:
            _families(stream)
        _gaps(stream)
        _check(desk)
        parts.exports("health", lambda: run_rows(stream), lambda: told)


def _numbers(told: dict[str, Any], stream: dict[str, Any]) -> None:
    with st.container(horizontal=True):
        st.metric("Store", words.size(told["file_bytes"]), border=True)
        st.metric("Generation", f"{told['generation']:,}", border=True, help="Raised by every commit.")
        st.metric("Ingest runs", f"{told['runs']:,}", border=True)
        st.metric(
            "Events of the stream",
            f"{stream['events']:,}",
            border=True,
            help="Accepted rows, those seen more than once included.",
        )
        st.metric("Sources", f"{stream['sources']:,}", border=True)
        st.metric("Epochs", f"{stream['epochs']:,}", border=True, help=f"of {stream['epoch_text']} each, as a rule")


def _verdicts(stream: dict[str, Any]) -> None:
    """What needs a look, or that nothing does."""
    gaps = len(stream["gaps"])
    rejected = sum(one["rows"] for one in stream["rejects"])
    if gaps:
        st.error(
            f"{words.counted(gaps, 'epoch cannot answer', 'epochs cannot answer')}: see below.",
            icon=":material/broken_image:",
        )
    if rejected:
        st.warning(f"{words.counted(rejected, 'row was', 'rows were')} rejected so far.", icon=":material/rule:")
    if not gaps and not rejected:
        st.success("Nothing is missing and nothing was rejected.", icon=":material/check_circle:")


def _lags(stream: dict[str, Any], held: StreamHeld, zone: tzinfo) -> None:
    newest: dict[str, int] = stream["source_newest"]
    if not newest:
        return
    latest = max(newest.values())
    seconds = held.unit.numerator / held.unit.denominator
    lag = sorted(((latest - at) * seconds, name) for name, at in newest.items())[::-1][:MOST_SOURCES]
    st.markdown("**How far each source lags behind the newest event**")
    age = _age(latest, held)
    st.caption(
        f"The newest event is of {words.safe(words.moment(latest, held.unit, zone))}"
        + (f", {words.duration(age)} ago." if age is not None and age > 1 else ".")
    )
    unit, size = next(((name, size) for name, size in reversed(parts.AGES) if lag[0][0] >= 2 * size), parts.AGES[0])
    figure = figures.bars(
        [name for _, name in lag], [one / size for one, _ in lag], f"lag, {unit}", f"%{{x:.3~g}} {unit}"
    )
    parts.show(figure, "lag", "How far each source lags behind the newest event")


def _age(moment: int, held: StreamHeld) -> float | None:
    at = words.stamp(moment, held.unit)
    return None if at is None else (datetime.now(UTC) - at).total_seconds()


def _runs(stream: dict[str, Any], zone: tzinfo) -> None:
    st.markdown("**The last ingest runs**")
    if not stream["runs"]:
        st.caption("No run has brought this stream anything yet.")
        return
    head, table = run_rows(stream)
    columns = {name: [row[at] for row in table] for at, name in enumerate(head)}
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


def run_rows(stream: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
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
            "for example": [_example(one["examples"]) for one in stream["rejects"]],
        },
        hide_index=True,
        column_config={"rows": st.column_config.NumberColumn(format="localized")},
        alt="Rejected rows by reason",
    )


def _example(examples: list[Any]) -> str:
    if not examples:
        return ""
    first = examples[0]
    return ", ".join(f"{name} {value}" for name, value in first.items()) if isinstance(first, dict) else str(first)


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


def _check(desk: Desk) -> None:
    """Reading every payload takes a while, so it is asked for."""
    if st.button("Check every sketch", icon=":material/verified:", help="Reads all payloads and verifies each one."):
        with st.spinner("Reading and verifying every sketch …"):
            found = report(desk.path)
        damaged = sum(len(one["gaps"]) for one in found["streams"])
        sketches = sum(family["sketches"] for one in found["streams"] for family in one["families"])
        if damaged:
            st.error(f"{words.counted(damaged, 'epoch')} cannot answer.", icon=":material/broken_image:")
        else:
            st.success(f"All {sketches:,} sketches are whole.", icon=":material/check_circle:")
