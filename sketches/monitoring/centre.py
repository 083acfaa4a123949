"""The centre: it adds up what sites report, and balances a few of them before it asks all.

A report of a site that has left its zone says that the sum may have crossed the threshold, not that it has. Where the
mean drift of the sites that have spoken is inside, each of them gets it as its drift, by a slack, and all others hear
nothing. Else twice as many are asked, and at last all: then their sum is the new estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from sketches.arrays import Floats
from sketches.monitoring.site import Reference, Report
from sketches.monitoring.watched import Side, Watched
from sketches.monitoring.zones import Nowhere, Zone

_GRAIN: Final = 1024.0  # slacks are multiples of its inverse, so that they add up without rounding


class Member:
    """What the centre knows of a site."""

    def __init__(self) -> None:
        self.reference: Reference | None = None
        self.sent: Floats | None = None  # the vector that the reference counts
        self.report: Report | None = None  # one that no reference has answered yet
        self.newest = 0  # number of its newest check that anything came of
        self.confirmed: int | None = None  # the time of its newest check that is known to lie in the zone
        self.asked = False
        self.held = 0  # highest number of a reference that it said it has, also of another centre's

    def drift(self, vector: Floats) -> Floats:
        assert self.reference is not None
        assert self.sent is not None
        return self.reference.drift(vector, self.sent)


class Centre:
    """The state of the centre; everything that it decides follows from the reports that came, not from when."""

    def __init__(self, watched: Watched, threshold: float, sites: Sequence[str], *, balances: bool = True) -> None:
        self.watched = watched
        self.balances = balances
        self.threshold = threshold
        self.members = {site: Member() for site in sites}
        self.number = 0  # of the newest reference
        self.estimate: Floats | None = None
        self.side: Side | None = None
        self.value = 0.0
        self.zone: Zone = Nowhere()
        self.synchronised = self.balanced = 0

    def adopt(self, estimate: Floats) -> None:
        """Take a sum of vectors as the estimate."""
        self.estimate, self.value = estimate, self.watched.value(estimate)
        self.side, self.zone = self.watched.zone(estimate, self.threshold)

    @property
    def keeps_quiet(self) -> bool:
        """Whether the zone holds its own estimate; where it does not, the sites report at every check."""
        return self.estimate is not None and bool(self.zone.contains(self.estimate))

    def hear(self, site: str, report: Report) -> bool:
        """Take a report; False where it is not newer than what came before."""
        member = self.members[site]
        if report.check <= member.newest:
            return False
        member.newest, member.report = report.check, report
        return True

    def hear_quiet(self, site: str, check: int, as_of: int, reference: int) -> bool:
        """Take word that a site keeps quiet; it counts under the site's own newest reference only."""
        member = self.members[site]
        if check <= member.newest:
            return False
        member.newest = check
        if member.reference is not None and member.reference.number == reference and member.report is None:
            member.confirmed = as_of
        return True

    def forget(self, site: str) -> None:
        """The site compares with a reference that is not ours: what is known of it is void, and it is asked."""
        member = self.members[site]
        member.reference = member.sent = member.confirmed = None
        member.asked = True

    def unsettled(self) -> list[str]:
        """The sites that have left their zone, of which no more is known yet."""
        if not self.keeps_quiet:
            return []
        return [
            site
            for site, member in self.members.items()
            if member.report is not None
            and (member.reference is None or not self.zone.contains(member.drift(member.report.vector)))
        ]

    def settle(self) -> None:
        """Do what the reports allow: release, balance, ask further sites, or synchronise all."""
        told = {site: member for site, member in self.members.items() if member.report is not None}
        if not told:
            if self.estimate is None:  # sites that are heard of keep quiet under a centre that was lost
                for member in self.members.values():
                    member.asked = member.newest > 0
            return
        if len(told) == len(self.members):
            self._synchronise()
        elif not self.keeps_quiet:
            self._ask(len(self.members))
        elif not self.unsettled():
            for member in told.values():
                self._release(member)
        elif not self.balances or any(member.reference is None for member in told.values()):
            self._ask(len(self.members))
        elif not self._balance(list(told.values())):
            self._ask(len(told))

    def _synchronise(self) -> None:
        reports = [member.report for member in self.members.values() if member.report is not None]
        self.adopt(np.sum([report.vector for report in reports], axis=0))
        self.synchronised += 1
        assert self.estimate is not None
        for member, report in zip(self.members.values(), reports, strict=True):
            self._refer(member, report, np.zeros_like(self.estimate))

    def _balance(self, group: Sequence[Member]) -> bool:
        """Give the group its mean drift, where that is inside the zone."""
        assert self.estimate is not None
        reports = [member.report for member in group if member.report is not None]
        drifts = np.array([member.drift(report.vector) for member, report in zip(group, reports, strict=True)])
        slacks = balanced(drifts) - self.estimate
        if not np.all(self.zone.contains(slacks + self.estimate)):
            return False
        self.balanced += 1
        for member, report, slack in zip(group, reports, slacks, strict=True):
            self._refer(member, report, slack)
        return True

    def _release(self, member: Member) -> None:
        """Answer a report that lies in the zone: it counts from now on, and the drift is what it was."""
        assert member.report is not None
        assert self.estimate is not None
        self._refer(member, member.report, member.drift(member.report.vector) - self.estimate)

    def _refer(self, member: Member, report: Report, slack: Floats) -> None:
        assert self.estimate is not None
        self.number += 1
        terms = (self.number, report.check, len(self.members), self.threshold)
        member.reference, member.sent = Reference(*terms, self.estimate, slack), report.vector
        member.report, member.confirmed, member.asked = None, report.as_of, False

    def _ask(self, more: int) -> None:
        """Ask so many further sites for a report, those whose references are the oldest first."""
        waiting = sum(member.asked and member.report is None for member in self.members.values())
        silent = [one for one in self.members.values() if one.report is None and not one.asked]
        silent.sort(key=lambda one: 0 if one.reference is None else one.reference.number)
        for member in silent[: max(more - waiting, 0)]:
            member.asked = True


def balanced(drifts: Floats) -> Floats:
    """Drifts near the mean of these, with the same sum to the last digit.

    >>> balanced(np.array([[1.0], [2.0], [8.5]])).ravel().tolist()
    [3.8330078125, 3.8330078125, 3.833984375]
    """
    found = np.repeat((np.floor(drifts.mean(axis=0) * _GRAIN) / _GRAIN)[None], len(drifts), axis=0)
    found[-1] = drifts.sum(axis=0) - found[:-1].sum(axis=0)
    return found
