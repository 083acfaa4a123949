"""What is known of a rule now: its side of the threshold as of a time up to which all sites were heard, or why not.

Everything here is read off the centre's state file, so the dashboard needs no settings. A side is stated only as of the
oldest of the sites' newest confirmations: checks at which a site was in its zone, or whose report was added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sketches.durations import human_duration
from sketches.formatting import counted, listed, moment_text, number_text, size_text
from sketches.records import dataclass, field
from sketches.units import SECOND
from store.monitoring.state_files import read_state, state_folder

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a rule at the centre: a side as of a time, or unknown for a reason. Times are seconds since 1970."""

    rule: str
    words: str
    state: str
    reason: str  # why it is unknown
    since: int | None  # when the state began
    as_of: int | None  # all sites were heard of up to then
    value: float | None  # at the last synchronisation
    value_as_of: int | None
    threshold: float
    last: str  # the side that was known last
    checks: int
    messages: int
    bytes: int
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def saved(self) -> int:
        """Messages that periodic sending, a report of each site at each check, would have needed besides."""
        return self.checks - self.messages

    def as_dict(self) -> dict[str, Any]:
        names = ("rule", "words", "state", "reason", "since", "as_of", "value", "value_as_of", "threshold", "last")
        found = {name: getattr(self, name) for name in (*names, "checks", "messages", "bytes")}
        return found | {"saved": self.saved} | dict(self.more)

    def lines(self) -> list[str]:
        since = "" if self.since is None else f" since {moment_text(self.since, SECOND)}"
        found = [f"{self.rule}: {self.state}{since} ({self.words})"]
        if self.reason:
            found.append(f"  {self.reason}" + (f"; before that it was {self.last}" if self.last else ""))
        if self.as_of is not None and not self.reason:
            found.append(f"  all sites were heard of up to {moment_text(self.as_of, SECOND)}")
        if self.value is not None:
            when = moment_text(self.value_as_of, SECOND)
            found.append(f"  value {number_text(self.value)} at {when}, threshold {number_text(self.threshold)}")
        sent = f"{counted(self.messages, 'message')}, {size_text(self.bytes)}"
        less = f"{self.saved:,} fewer" if self.saved >= 0 else f"{-self.saved:,} more"
        found.append(f"  {sent}, for {counted(self.checks, 'check')}: {less} than with a report at every check")
        return found


def standing_of(state: Mapping[str, Any], now: int) -> Standing:
    """What a centre's state says now."""
    sites, lease = state["sites"], state["lease"]
    reason = _reason(state, now)
    confirmed = [one["confirmed"] for one in sites.values() if one["confirmed"] is not None]
    as_of = min(confirmed) if len(confirmed) == len(sites) and confirmed else None
    if not reason:
        since = state["side_since"]
    elif state["unsettled"] or as_of is None:
        since = state["unknown_since"]
    else:
        since = as_of + lease
    return Standing(
        rule=state["rule"],
        words=state["words"],
        state=UNKNOWN if reason else state["side"],
        reason=reason,
        since=since,
        as_of=as_of,
        value=state["value"],
        value_as_of=state["value_as_of"],
        threshold=state["threshold"],
        last=state["side"] or "",
        checks=sum(one["checks"] for one in sites.values()),
        messages=sum(state["sent"].values()),
        bytes=state["bytes"],
        more={
            "streams": list(state["streams"]),
            "sent": dict(state["sent"]),
            "synchronised": state["synchronised"],
            "balanced": state["balanced"],
        },
    )


def _reason(state: Mapping[str, Any], now: int) -> str:
    sites, lease = state["sites"], state["lease"]
    if state["side"] is None:
        silent = [site for site, one in sites.items() if not one["has_report"]]
        if not silent:
            return "the reports are not added up yet"
        otherwise = [site for site in silent if sites[site].get("otherwise")]
        but = f"; the settings of {listed(otherwise, 5)} are not those of the centre" if otherwise else ""
        return f"no report has come yet of {listed(silent, 5)}{but}"
    if state["unsettled"]:
        asked = [site for site, one in sites.items() if one["asked"]]
        waits = f"; reports were asked of {listed(asked, 5)}" if asked else ""
        return f"{listed(state['unsettled'], 5)} left the zone, and the threshold may be crossed{waits}"
    late = {site: one for site, one in sites.items() if one["confirmed"] is None or one["confirmed"] < now - lease}
    if late:
        return "; ".join(_late(site, one, now, lease) for site, one in list(late.items())[:5]) + (
            f"; and {counted(len(late) - 5, 'more site')}" if len(late) > 5 else ""
        )
    return ""


def _late(site: str, one: Mapping[str, Any], now: int, lease: int) -> str:
    heard = one["heard"]
    if one.get("otherwise"):
        return f"the settings of {site} are not those of the centre any more"
    if one["reference"] is None and one.get("held"):
        return f"{site} has a reference that the centre does not know, and was asked for a report"
    if heard is not None and heard >= now - lease:
        return f"{site} has not taken up its newest reference"
    age = "at all" if heard is None else f"for {human_duration(now - heard)}"
    return f"{site} was not heard of {age}, longer than the lease of {human_duration(lease)}"


def standings(store: Path, now: int) -> list[Standing]:
    """Of every rule that the centre of this store watches."""
    folder = state_folder(store)
    states: Sequence[Path] = sorted(folder.glob("*.centre")) if folder.is_dir() else []
    found = [read_state(path) for path in states]
    return [standing_of(state, now) for state in found if state is not None]
