"""`wane site sync`: the centre takes what the sites have sent, balances or synchronises, and writes references."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sketches.arrays import Floats
from sketches.monitoring.centre import Centre, Member
from sketches.monitoring.site import Reference, Report
from sketches.records import dataclass
from store.monitoring.messages import ALIVE, REFERENCE, REPORT, REQUEST, SUFFIX, Message, read_folder
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
            return None  # of another rule, or of another version of this one: it is not for us
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
        if message.kind == ALIVE:
            new = self.centre.hear_quiet(site, message.check, message.as_of, message.number)
        else:
            report = Report(message.check, message.as_of, message.number, message.vectors[0])
            new = self.centre.hear(site, report)
        if new:
            self.sent["reports" if message.kind == REPORT else "alive"] += 1
            self.bytes += size
            self.checks[site] += message.check - before
            self.heard[site] = max(self.heard[site] or 0, message.as_of)
        return None

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
        if centre.unsettled() or centre.side is None:
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
    return Synced(standing_of(content, now), tuple(problems))


def _files(state: CentreState, folder: Path) -> dict[Path, bytes]:
    """The files that are not there yet as they must be; each is counted once."""
    rule, found = state.rule, {}
    for site, member in state.centre.members.items():
        number, reference = 0, member.reference
        if reference is not None:
            number = reference.number
            facts = {"check": reference.check, "number": number, "site_born": state.counted_born[site]}
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
