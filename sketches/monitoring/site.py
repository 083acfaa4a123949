"""A site: it compares what it holds now with what it sent, and speaks when its drift leaves the zone.

The drift is the estimate, plus what has changed since the site's vector was sent times the number of sites, plus the
site's slack. Expiry is in it: windows that run empty drift too, so sites check by the clock and not by arrivals. The
mean of all drifts is the sum of what all sites hold at that moment, whenever each of their vectors was taken.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sketches.arrays import Floats
from sketches.monitoring.watched import Watched
from sketches.monitoring.zones import Zone

_REPEATED: Final = 4  # vectors that wait for a reference at most


class Report(NamedTuple):
    """A site's vector at one of its checks, and the reference that it had then, 0 for none."""

    check: int
    as_of: int
    reference: int
    vector: Floats


class Reference(NamedTuple):
    """What a site compares with: the estimate that all sites share, which of its own reports counts, and its slack."""

    number: int
    check: int
    sites: int
    threshold: float
    estimate: Floats
    slack: Floats

    def drift(self, vector: Floats, sent: Floats) -> Floats:
        """Where the site has moved; `sent` is the vector of the report that counts."""
        return self.estimate + self.sites * (vector - sent) + self.slack


class Site:
    """What a site keeps between its checks. `reports` are those that no reference has answered, the oldest first."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.check = 0
        self.reference: Reference | None = None
        self.sent: Floats | None = None
        self.newest = 0  # number of the newest reference that came, also of one that could not be taken up
        self.asked = 0  # number of the reference under which a report was asked for
        self.reports: list[Report] = []
        self._zone: tuple[Reference, Zone] | None = None  # of the reference

    def take(self, reference: Reference) -> bool:
        """Take up a reference; False where it is not newer. One that counts a report that is forgotten leaves none."""
        if reference.number <= self.newest:
            return False
        known = {report.check: report.vector for report in self.reports}
        if self.reference is not None and self.sent is not None:
            known[self.reference.check] = self.sent
        self.newest = reference.number
        self.sent = known.get(reference.check)
        self.reference = None if self.sent is None else reference
        self.reports = []
        return True

    def ask(self, number: int) -> None:
        """A report was asked for, of a site that has the reference of this number."""
        self.asked = max(self.asked, number)

    def is_quiet(self, vector: Floats) -> bool:
        """Whether the site may keep quiet with this vector."""
        if self.reference is None or self.sent is None or self.asked >= self.newest:
            return False
        if self._zone is None or self._zone[0] is not self.reference:
            self._zone = self.reference, self.watched.zone(self.reference.estimate, self.reference.threshold)[1]
        return bool(self._zone[1].contains(self.reference.drift(vector, self.sent)))

    def at_check(self, vector: Floats, as_of: int, *, refresh: bool = False) -> Report | None:
        """The report that is to be sent at a check; None: the site keeps quiet.

        A report is repeated until a newer reference arrives; `refresh` puts a new one beside it.
        """
        self.check += 1
        if self.reports and not refresh:
            return self.reports[-1]
        if not self.reports and self.is_quiet(vector):
            return None
        held = 0 if self.reference is None else self.reference.number
        self.reports = [*self.reports, Report(self.check, as_of, held, vector)][-_REPEATED:]
        return self.reports[-1]
