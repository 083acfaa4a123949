"""What a page says beside its numbers: missing epochs, rejected rows, sources that lag, and that there is nothing."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard import wording
from dashboard.asking import session
from dashboard.asking.filling import GROWING
from dashboard.asking.view import View
from sketches.formatting import counted, listed, moment_text
from store import Provenance
from store.serving.catalogue import Rejected, StoredStream

_FEW: Final = 0.005  # of all rows: so many rejected ones are told, but not shouted


def beside(provenance: Provenance, stream: StoredStream) -> None:
    """All that must be known with an answer."""
    incomplete(provenance, stream)
    rejected(provenance.rejected)
    lagging(provenance)


def rejected(found: Rejected | None) -> None:
    """A line where rows were rejected, and a warning where they are many."""
    if found is None:
        return
    text = (
        f"{found.rows:,} of {found.read:,} rows ({100 * found.share:.3g}%) were rejected, most of them because: "
        f"{wording.safe(found.reason)}. Numbers are of the rows taken."
    )
    if found.share < _FEW:
        st.caption(f":material/rule: {text}")
    else:
        st.warning(text, icon=":material/rule:")


def lagging(provenance: Provenance) -> None:
    """One line where sources have been silent for longer than an epoch."""
    if provenance.lagging:
        st.caption(f"Sources behind the as-of time: {wording.safe(', '.join(provenance.lagging))}.")


def nothing_counts(view: View) -> None:
    """What stands in the place of a figure without numbers."""
    filtered = ", or none fits the filter" if view.where else ""
    st.info(f"Nothing counts here: no event is young enough{filtered}.", icon=":material/hourglass_empty:")


def incomplete(provenance: Provenance, stream: StoredStream) -> None:
    """A warning where epochs are missing."""
    if provenance.complete:
        return
    zone = wording.zone(session.view().zone)
    gaps = sorted({(gap.start, gap.source, gap.reason) for gap in provenance.missing})
    named = listed([f"{source} at {moment_text(start, stream.unit, zone)} ({why})" for start, source, why in gaps])
    st.warning(
        f"Incomplete: {counted(len(gaps), 'epoch is', 'epochs are')} missing: {wording.safe(named)}. "
        "Numbers and their bounds are of the readable epochs only. *Check every sketch* on the page Health lists all "
        "missing epochs.",
        icon=":material/warning:",
    )


def empty(title: str, text: str, code: str = "") -> None:
    """What a page says where there is nothing to show, and the command that changes that."""
    with st.container(border=True):
        st.markdown(f"### {title}")
        st.markdown(text)
        if code:
            st.code(code, language=None, wrap_lines=True)


def no_events(stream: StoredStream) -> None:
    """What a page says of a stream without events."""
    empty("No events yet", f"The stream **{wording.safe(stream.name)}** is known, but it holds no events yet.")


def grows(view: View) -> None:
    """A line where sums under two decays are compared: they are of more or less time, which is no change."""
    if view.compare == "decays" and view.aggregate in GROWING:
        st.caption(
            ":material/straighten: Two decays look back on more or less time: sums and numbers differ for that reason "
            "alone. Ask for the rate or the mean, or compare with a time before."
        )
