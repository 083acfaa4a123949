"""Sites and a centre in one process, in step: everything that is sent arrives before the next check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sketches.arrays import Floats
from sketches.monitoring.centre import Centre
from sketches.monitoring.site import Site
from sketches.monitoring.watched import Side, Watched


@dataclass
class Sent:
    """Messages by kind."""

    reports: int = 0
    asks: int = 0
    references: int = 0
    slacks: int = 0

    @property
    def messages(self) -> int:
        return self.reports + self.asks + self.references + self.slacks


@dataclass
class Network:
    """Sites that check in step, and their centre."""

    watched: Watched
    threshold: float
    names: Sequence[str]
    balances: bool = True
    sent: Sent = field(default_factory=Sent)

    def __post_init__(self) -> None:
        self.centre = Centre(self.watched, self.threshold, self.names, balances=self.balances)
        self.sites = {name: Site(self.watched) for name in self.names}

    def check(self, vectors: Floats, as_of: int) -> Side:
        """One check of all sites, a row of vectors each; the side that the centre then believes in."""
        now = dict(zip(self.names, vectors, strict=True))
        for name, site in self.sites.items():
            if (report := site.at_check(now[name], as_of)) is not None:
                self.sent.reports += 1
                self.centre.hear(name, report)
        while any(member.report is not None for member in self.centre.members.values()):
            self._round(now, as_of)
        assert self.centre.side is not None
        return self.centre.side

    def _round(self, now: dict[str, Floats], as_of: int) -> None:
        before, held = self.centre.synchronised, self.numbers()
        self.centre.settle()
        for name, member in self.centre.members.items():
            site = self.sites[name]
            if member.reference is not None and member.reference.number != held[name]:
                assert site.take(member.reference)
                self.sent.references += self.centre.synchronised > before
                self.sent.slacks += self.centre.synchronised == before
            elif member.asked and member.report is None:
                self.sent.asks += 1
                site.ask(held[name])
                report = site.at_check(now[name], as_of)
                assert report is not None
                self.sent.reports += 1
                self.centre.hear(name, report)

    def numbers(self) -> dict[str, int]:
        members = self.centre.members.items()
        return {name: 0 if one.reference is None else one.reference.number for name, one in members}


def walks(kind: str, sites: int, size: int, ticks: int, seed: int, window: int = 12) -> Iterator[Floats]:
    """What sites hold at every tick, in halves: sliding sums of arrivals that rise, fall, stop, or come in bursts."""
    rng = np.random.default_rng([seed, sites, size])
    shape = rng.pareto(1.2, size) + 0.2
    load = np.full((ticks + window, sites), 4.0)
    progress = np.arange(ticks + window)[:, None] / (ticks + window)
    if kind == "falling":
        load *= np.exp(-3.0 * progress)
    elif kind == "rising":
        load *= 0.3 + 2.0 * progress
    elif kind == "silent":
        load[:, : sites // 2] *= progress < 1 / 3
    elif kind == "bursts":
        load[np.arange(0, len(load), 7), rng.integers(0, sites, len(range(0, len(load), 7)))] *= 12.0
    elif kind == "waves":
        load *= 1.0 + 0.5 * np.sin(20.0 * progress)
    arrivals = rng.poisson(load[:, :, None] * shape)
    for tick in range(ticks):
        yield arrivals[tick : tick + window].sum(axis=0) / 2.0
