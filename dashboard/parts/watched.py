"""What many sites watch together, as the page Health shows it: each monitor's state, since when, and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard import wording
from sketches.errors import WaneError
from sketches.formatting import moment_text, number_text
from sketches.units import SECOND
from store.monitoring.standing import UNKNOWN, Standing, standings


def watched(store: Path, stream: str, now: int, zone: tzinfo) -> None:
    """The monitors of a stream at the centre of which this is the store; nothing where there are none."""
    try:
        found = [one for one in standings(store, now) if stream in one.more["streams"]]
    except WaneError as error:
        st.error(wording.safe(str(error)), icon=":material/broken_image:")
        return
    if not found:
        return
    st.markdown("**What the sites watch together**")
    for one in found:
        if one.state == UNKNOWN:
            st.warning(f"{wording.safe(one.rule)}: unknown. {wording.safe(one.reason)}.", icon=":material/help:")
    st.dataframe(watched_table(found, zone), hide_index=True, alt="Monitors with their state, value and messages saved")


def watched_table(found: Sequence[Standing], zone: tzinfo) -> dict[str, list[Any]]:
    def time(moment: int | None) -> str:
        return "" if moment is None else moment_text(moment, SECOND, zone)

    return {
        "monitor": [one.rule for one in found],
        "what": [one.words for one in found],
        "state": [one.state for one in found],
        "since": [time(one.since) for one in found],
        "sites heard up to": [time(one.as_of) for one in found],
        "value": ["" if one.value is None else number_text(one.value) for one in found],
        "at": [time(one.value_as_of) for one in found],
        "threshold": [number_text(one.threshold) for one in found],
        "messages": [one.messages for one in found],
        "messages saved": [one.saved for one in found],
    }
