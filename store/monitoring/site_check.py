"""`wane site check`: what a site's store holds now, beside its reference; it writes a file only where it must."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from sketches.arrays import Floats
from sketches.errors import UnanswerableError, WaneError
from sketches.monitoring.readings import Readings
from sketches.monitoring.site import Reference, Report, Site
from sketches.question import Question
from sketches.records import dataclass
from store.monitoring.messages import ALIVE, REFERENCE, REPORT, REQUEST, SUFFIX, Message, mark_of, read_folder, whole
from store.monitoring.rule import Rule
from store.monitoring.state_files import file_name, held, read_state, state_folder, write_state, write_whole
from store.serving.store import Store

TO_CENTRE: Final = "to-centre"
TO_SITES: Final = "to-sites"


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check did; `said` is "report", "repeat", "alive" or nothing."""

    rule: str
    site: str
    check: int
    as_of: int
    said: str
    bytes: int
    reference: int
    problems: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        names = ("rule", "site", "check", "as_of", "said", "bytes", "reference", "problems")
        return {name: getattr(self, name) for name in names}

    def line(self) -> str:
        said = {
            "report": f"left its zone or was asked: a report of {self.bytes:,} bytes",
            "repeat": f"waits for a newer reference: its report again, {self.bytes:,} bytes",
            "alive": f"quiet; a sign of life of {self.bytes:,} bytes",
            "": "quiet",
        }
        return f"{self.rule}: {self.site}, check {self.check:,}, {said[self.said]}"


def listed(report: Report) -> list[Any]:
    """A report for JSON."""
    return [report.check, report.as_of, report.reference, report.vector.tolist()]


def report_of(found: list[Any]) -> Report:
    check, as_of, reference, vector = found
    return Report(check, as_of, reference, np.array(vector))


class SiteState:
    """A site with what is written down of it."""

    def __init__(self, rule: Rule, path: Path, now: int) -> None:
        self.rule, self.path = rule, path
        self.site = Site(rule.watched)
        self.born = now
        self.spoke = 0  # when it last wrote a file
        self.centre_born = 0
        state = read_state(path)
        if state is not None and state["digest"] == rule.digest.hex():  # a changed rule starts anew
            self._read(state)

    def _read(self, state: dict[str, Any]) -> None:
        site = self.site
        self.born, self.spoke, self.centre_born = state["born"], state["spoke"], state["centre_born"]
        site.check, site.newest, site.asked = state["check"], state["newest"], state["asked"]
        site.reports = [report_of(one) for one in state["reports"]]
        if state["reference"] is not None:
            number, check, estimate, slack, sent = state["reference"]
            terms = (number, check, len(self.rule.sites), self.rule.threshold)
            site.reference, site.sent = Reference(*terms, np.array(estimate), np.array(slack)), np.array(sent)

    def write(self) -> None:
        site, reference = self.site, None
        if site.reference is not None and site.sent is not None:
            held = site.reference
            reference = [held.number, held.check, held.estimate.tolist(), held.slack.tolist(), site.sent.tolist()]
        state = {
            "digest": self.rule.digest.hex(),
            "born": self.born,
            "spoke": self.spoke,
            "centre_born": self.centre_born,
            "check": site.check,
            "newest": site.newest,
            "asked": site.asked,
            "reports": [listed(one) for one in site.reports],
            "reference": reference,
        }
        write_state(self.path, state)

    def message(
        self, kind: int, site: str, check: int, as_of: int, number: int, vectors: tuple[Floats, ...]
    ) -> Message:
        mark = mark_of(self.site.reference, self.site.sent)
        return Message(
            *(kind, self.rule.digest, site, self.born, check, as_of, number),
            vectors=vectors,
            centre_born=self.centre_born,
            mark=mark,
        )

    def hear(self, message: Message, size: int) -> None:
        """Take what the centre has sent, in any order. A centre that was made anew counts from 1 again."""
        if message.born < self.centre_born:
            return
        if message.born > self.centre_born:
            self.centre_born = message.born
            self.site.newest = self.site.asked = 0
        if message.kind == REQUEST:
            self.site.ask(message.number)
            return
        if len(message.vectors[0]) != size:
            raise WaneError(f"a reference has {len(message.vectors[0])} numbers, and not {size}")
        terms = (message.number, message.check, len(self.rule.sites), self.rule.threshold)
        if message.site_born != self.born:  # it counts a report from before this state was made
            terms = (message.number, 0, *terms[2:])
        self.site.take(Reference(*terms, *message.vectors))


def check(rule: Rule, site: str, store: Path, folder: Path, now: int) -> Checked:
    """One check of a site; `now` is in seconds since 1970."""
    return check_vector(rule, site, state_folder(store), folder, now, readings_of_store(rule, store, now))


def readings_of_store(rule: Rule, store: Path, now: int) -> Floats:
    """The vector that a site with this store has now."""
    return rule.watched.vector([_readings(rule, stream, Store(store), now) for stream in rule.streams])


def check_vector(rule: Rule, site: str, states: Path, folder: Path, now: int, vector: Floats) -> Checked:
    """A check of a site whose counters hold this vector now."""
    if site not in rule.sites:
        raise WaneError(f"{site!r} is no site of monitor {rule.name!r}; its sites are {', '.join(rule.sites)}")
    path = states / f"{file_name(rule.name, site)}.site"
    with held(path):
        state = SiteState(rule, path, now)
        vector = whole(vector)
        problems = _take_files(state, site, folder / TO_SITES, len(vector))
        waits = bool(state.site.reports)
        refresh = waits and now - state.site.reports[-1].as_of >= _half(rule)
        report = state.site.at_check(vector, now, refresh=refresh)
        said, message = "", None
        if report is not None:
            said = "repeat" if waits and not refresh else "report"
            number = state.site.newest
            message = state.message(REPORT, site, report.check, report.as_of, number, (report.vector,))
        elif now - state.spoke >= _half(rule):
            said = "alive"
            message = state.message(ALIVE, site, state.site.check, now, state.site.newest, ())
        if message is not None:
            state.spoke = now
        state.write()  # before the file: a report that was sent is never forgotten
        size = _write_files(folder / TO_CENTRE / file_name(rule.name, site), message, reports=report is not None)
        number = 0 if state.site.reference is None else state.site.reference.number
        return Checked(rule.name, site, state.site.check, now, said, size, number, tuple(problems))


def _half(rule: Rule) -> int:
    """A site that keeps quiet says so when half of its lease is over, so that one lost file does no harm."""
    return max(rule.lease // 2, 1)


def _write_files(start: Path, message: Message | None, *, reports: bool) -> int:
    """Write what is to be sent; a report that was answered is taken away."""
    report, alive = (start.with_name(f"{start.name}.{kind}{SUFFIX}") for kind in ("report", "alive"))
    data = b"" if message is None else message.to_bytes()
    if message is not None:
        write_whole(report if reports else alive, data)
    if not reports:
        report.unlink(missing_ok=True)
    return len(data)


def _take_files(state: SiteState, site: str, folder: Path, size: int) -> list[str]:
    problems, rule = [], state.rule
    for path, _, found in read_folder(folder):
        if isinstance(found, str):
            problems.append(found)
        elif found.kind not in (REFERENCE, REQUEST) or found.site != site:
            continue
        elif rule.is_otherwise(found.digest) and found.born > state.centre_born:
            said = f"the settings of {rule.name!r} at the centre are not those here; both need the same"
            problems.append(f"{path} was left out: {said}")
        elif found.digest == rule.digest:
            try:
                state.hear(found, size)
            except WaneError as error:
                problems.append(f"{path} was left out: {error}")
    return problems


def _readings(rule: Rule, stream: str, store: Store, now: int) -> Readings:
    """What a stream's counters hold over the window that ends now; nothing where the store has nothing of it yet."""
    if not store.path.exists() or stream not in store.catalogue(stream).streams:
        return rule.nothing
    moment = now * rule.unit.denominator // rule.unit.numerator
    asked = Question("self-join", rule.window, moment)
    selected = store.selected(stream, asked, rule.sketch.family)
    (selection,) = selected.selections
    missing = selected.provenance(np.array([moment], np.int64), 0.0).missing
    if missing or selection.askable is None:
        reason = missing[0].reason if missing else "no sketch can be read"
        raise UnanswerableError(f"stream {stream!r} cannot be watched, because a part of it is missing: {reason}")
    return rule.sketch.readings(selection.askable, asked, rule.value)
