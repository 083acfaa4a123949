"""`wane site sync`: the centre takes what the sites have sent, balances or synchronises, and writes references."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sketches.arrays import Floats
from sketches.monitoring.centre import Centre, Member
from sketches.monitoring.site import Reference, Report
from sketches.records import dataclass
from store.monitoring.messages import ALIVE, REFERENCE, REPORT, REQUEST, SUFFIX, Message, mark_of, read_folder
from store.monitoring.rule import Rule
from store.monitoring.site_check import TO_CENTRE, TO_SITES, listed, report_of
from store.monitoring.standing import Standing, standing_of
from store.monitoring.state_files import file_name, held, read_state, state_folder, write_state, write_whole


@dataclass(frozen=True, slots=True)
class Synced:
    """What the centre knows after it has taken all files, and what was wrong with some of them."""

    standing: Standing
    problems: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return self.standing.as_dict() | {"problems": list(self.problems)}


class CentreState:
    """A centre with what is written down of it."""

    def __init__(self, rule: Rule, path: Path, now: int) -> None:
        self.rule, self.path = rule, path
        self.centre = Centre(rule.watched, rule.threshold, rule.sites)
        self.born = now
        self.site_born = dict.fromkeys(rule.sites, 0)
        self.counted_born = dict.fromkeys(rule.sites, 0)  # of the site that wrote the report which its reference counts
        self.heard: dict[str, int | None] = dict.fromkeys(rule.sites)
        self.checks = dict.fromkeys(rule.sites, 0)  # of earlier states of the site, too
        self.otherwise: dict[str, int] = {}  # sites whose files are of other settings, and as of when the newest is
        self.notes: list[str] = []
        self.sent = {"reports": 0, "alive": 0, "references": 0, "requests": 0}
        self.bytes = 0
        self.side_since: int | None = None
        self.unknown_since: int | None = now
        self.value_as_of: int | None = None
        state = read_state(path)
        if state is not None and state["digest"] == rule.digest.hex():  # a changed rule starts anew
            self._read(state)

    def _read(self, state: dict[str, Any]) -> None:
        centre = self.centre
        self.born, self.sent, self.bytes = state["born"], state["sent"], state["bytes"]
        self.side_since, self.unknown_since = state["side_since"], state["unknown_since"]
        self.value_as_of = state["value_as_of"]
        centre.number = state["number"]
        if state["estimate"] is not None:
            centre.adopt(np.array(state["estimate"]))
        centre.synchronised, centre.balanced = state["synchronised"], state["balanced"]
        for site, one in state["sites"].items():
            member = centre.members[site]
            self.site_born[site], self.heard[site], self.checks[site] = one["born"], one["heard"], one["checks"]
            self.counted_born[site] = one["counted_born"]
            member.newest, member.confirmed, member.asked = one["newest"], one["confirmed"], one["asked"]
            member.held = one.get("held", 0)
            if one["report"] is not None:
                member.report = report_of(one["report"])
            if one["reference"] is not None:
                number, check, slack, sent = one["reference"]
                assert centre.estimate is not None
                terms = (number, check, len(self.rule.sites), self.rule.threshold)
                member.reference = Reference(*terms, centre.estimate, np.array(slack))
                member.sent = np.array(sent)

    def hear(self, message: Message, size: int, numbers: int, now: int) -> str | None:
        """Take a file; why it cannot be, if it cannot. What is old or repeated changes nothing."""
        site = message.site
        if message.digest != self.rule.digest:
            return self._hear_otherwise(message)
        if site not in self.rule.sites:
            return f"it is of {site!r}, which is no site of {self.rule.name!r}"
        if max(message.as_of, message.born) > now + self.rule.lease:
            return f"the clock of {site} is more than a lease ahead"
        if message.kind == REPORT and len(message.vectors[0]) != numbers:
            return f"its report has {len(message.vectors[0])} numbers, and not {numbers}"
        member = self.centre.members[site]
        if message.born < self.site_born[site]:
            return None
        if message.born > self.site_born[site]:  # the site began anew, and counts from 1
            self.site_born[site], member.newest, member.report = message.born, 0, None
        before = member.newest
        if message.check <= before:
            return None
        ours = self._is_ours(message)
        if message.kind == ALIVE:
            self.centre.hear_quiet(site, message.check, message.as_of, message.number if ours else -1)
        else:
            self.centre.hear(site, Report(message.check, message.as_of, message.number, message.vectors[0]))
        self.sent["reports" if message.kind == REPORT else "alive"] += 1
        self.bytes += size
        self.checks[site] += message.check - before
        self.heard[site] = max(self.heard[site] or 0, message.as_of)
        return None

    def _is_ours(self, message: Message) -> bool:
        """Whether a site's reference is the one that is written down here. One that this centre cannot have written,
        because it was restored from a copy or put in the place of another, is forgotten, and the site asked anew."""
        centre, member = self.centre, self.centre.members[message.site]
        reference, number = member.reference, message.number
        ours = reference is not None and (number, message.mark) == (reference.number, mark_of(reference, member.sent))
        under_way = message.centre_born < self.born or (reference is not None and number < reference.number)
        if message.mark and not ours and not under_way:
            if reference is not None or not member.asked:
                self.notes.append(
                    f"{message.site} has a reference of {self.rule.name!r} that this centre does not know: the centre "
                    "was restored, or is not the only one; the site is asked for a report"
                )
            centre.forget(message.site)
        centre.number, member.held = max(centre.number, number), max(member.held, number)
        self.born = max(self.born, message.centre_born)  # sites take nothing from a centre that was born earlier
        return ours

    def _hear_otherwise(self, message: Message) -> str | None:
        """A file of another rule is not for us; one of this rule with other settings is told of, if it is news."""
        site, rule = message.site, self.rule
        known = max(self.heard.get(site) or 0, self.site_born.get(site, 0))
        if not rule.is_otherwise(message.digest) or max(message.as_of, message.born) <= known:
            return None
        self.otherwise[site] = max(self.otherwise.get(site, 0), message.as_of)
        return f"the settings of {rule.name!r} at {site} are not those of this centre; both need the same"

    def settle(self, now: int) -> None:
        """Do what the reports allow, and note since when the state is what it is."""
        centre = self.centre
        before, synchronised = centre.side, centre.synchronised
        reports = [member.report.as_of for member in centre.members.values() if member.report is not None]
        numbers = {site: member.reference for site, member in centre.members.items()}
        centre.settle()
        for site, member in centre.members.items():
            if member.reference is not numbers[site]:
                self.counted_born[site] = self.site_born[site]
        if centre.synchronised > synchronised:
            self.value_as_of = min(reports)
            if centre.side is not before:
                self.side_since = min(reports)
        lost = any(member.reference is None for member in centre.members.values())
        if centre.unsettled() or centre.side is None or lost:
            self.unknown_since = now if self.unknown_since is None else self.unknown_since
        else:
            self.unknown_since = None

    def as_dict(self) -> dict[str, Any]:
        centre, rule = self.centre, self.rule
        return {
            "digest": rule.digest.hex(),
            "rule": rule.name,
            "words": rule.words,
            "streams": list(rule.streams),
            "threshold": rule.threshold,
            "lease": rule.lease,
            "born": self.born,
            "number": centre.number,
            "estimate": None if centre.estimate is None else centre.estimate.tolist(),
            "side": None if centre.side is None else str(centre.side),
            "side_since": self.side_since,
            "unknown_since": self.unknown_since,
            "value": None if centre.side is None else centre.value,
            "value_as_of": self.value_as_of,
            "unsettled": centre.unsettled(),
            "synchronised": centre.synchronised,
            "balanced": centre.balanced,
            "sent": self.sent,
            "bytes": self.bytes,
            "sites": {site: self._site(site, member) for site, member in centre.members.items()},
        }

    def _site(self, site: str, member: Member) -> dict[str, Any]:
        report, reference = member.report, member.reference
        return {
            "born": self.site_born[site],
            "counted_born": self.counted_born[site],
            "heard": self.heard[site],
            "checks": self.checks[site],
            "newest": member.newest,
            "confirmed": member.confirmed,
            "asked": member.asked,
            "held": member.held,
            "otherwise": site in self.otherwise and self.otherwise[site] > (self.heard[site] or 0),
            "has_report": report is not None or reference is not None,
            "report": None if report is None else listed(report),
            "reference": None
            if reference is None
            else [reference.number, reference.check, _listed(reference.slack), _listed(member.sent)],
        }


def sync(rule: Rule, store: Path, folder: Path, now: int) -> Synced:
    """Take all files that have come, and write those that the sites are to get; `now` is in seconds since 1970."""
    path = state_folder(store) / f"{file_name(rule.name)}.centre"
    with held(path):
        state = CentreState(rule, path, now)
        numbers = len(rule.watched.vector([rule.nothing] * len(rule.streams)))
        problems = []
        for file, size, found in read_folder(folder / TO_CENTRE):
            if isinstance(found, str):
                problems.append(found)
            elif found.kind in (REPORT, ALIVE) and (fault := state.hear(found, size, numbers, now)) is not None:
                problems.append(f"{file} was left out: {fault}")
        state.settle(now)
        files = _files(state, folder / TO_SITES)
        content = state.as_dict()
        write_state(path, content)  # before the files: a reference that was sent is never forgotten
        for file, data in files.items():
            write_whole(file, data)
        for site, member in state.centre.members.items():
            if not member.asked:
                _file(folder / TO_SITES, rule, site, "request").unlink(missing_ok=True)
    return Synced(standing_of(content, now), (*problems, *state.notes))


def _files(state: CentreState, folder: Path) -> dict[Path, bytes]:
    """The files that are not there yet as they must be; each is counted once."""
    rule, found = state.rule, {}
    for site, member in state.centre.members.items():
        number, reference = member.held, member.reference
        if reference is not None:
            number = max(number, reference.number)
            facts = {"check": reference.check, "number": reference.number, "site_born": state.counted_born[site]}
            vectors = (reference.estimate, reference.slack)
            message = Message(REFERENCE, rule.digest, site, state.born, vectors=vectors, **facts)
            found[_file(folder, rule, site, "reference")] = message.to_bytes(), "references"
        if member.asked and member.report is None:
            message = Message(REQUEST, rule.digest, site, state.born, number=number)
            found[_file(folder, rule, site, "request")] = message.to_bytes(), "requests"
    new = {file: one for file, one in found.items() if not (file.exists() and file.read_bytes() == one[0])}
    for data, kind in new.values():
        state.sent[kind] += 1
        state.bytes += len(data)
    return {file: data for file, (data, _) in new.items()}


def _file(folder: Path, rule: Rule, site: str, kind: str) -> Path:
    return folder / f"{file_name(rule.name, site)}.{kind}{SUFFIX}"


def _listed(vector: Floats | None) -> list[float]:
    return [] if vector is None else vector.tolist()
