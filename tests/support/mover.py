"""Sites and a centre that exchange files over a way that loses, delays, repeats and reorders them at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from sketches import Events
from sketches.arrays import Floats
from sketches.countmin.ecm import Ecm
from sketches.units import SECOND
from store.monitoring.centre_sync import sync
from store.monitoring.messages import SUFFIX
from store.monitoring.rule import Rule
from store.monitoring.site_check import TO_CENTRE, TO_SITES, check_vector
from store.monitoring.standing import Standing, standings
from store.monitoring.state_files import read_state, state_folder

SKETCH: Final = Ecm.build(Events.of([], []), epsilon=0.5, delta=0.2)
SITES: Final = ("north", "south", "east", "west")
LEASE: Final = 100


def rule_of(threshold: float, **settings: Any) -> Rule:
    facts = {
        "name": "hot",
        "streams": ("calls",),
        "function": "self-join",
        "value": None,
        "window": "window:10m",
        "threshold": threshold,
        "lease": LEASE,
        "promise": "estimate",
        "sites": SITES,
        "sketch": SKETCH,
        "unit": SECOND,
    }
    return Rule(**(facts | settings))


@dataclass
class Mover:
    """A way between two folders. Every file gets a name of its own, and old ones are gone once they were read."""

    rng: np.random.Generator
    lost: float = 0.3
    repeated: float = 0.2
    latest: int = 6  # ticks that a file takes at most
    under_way: list[tuple[int, Path, bytes]] = field(default_factory=list)
    seen: dict[Path, bytes] = field(default_factory=dict)
    number: int = 0

    def move(self, begin: Path, end: Path, tick: int, *, again: bool = False, of: str = "*") -> None:
        """Take what is new in a folder, `of` a site or of all; with `again`, also what is old."""
        for path in sorted(begin.glob(f"*.{of}.*{SUFFIX}")) if begin.is_dir() else []:
            data = path.read_bytes()
            if self.seen.get(path) == data and not again and self.rng.random() > 0.3:
                continue
            self.seen[path] = data
            for _ in range(1 + (self.rng.random() < self.repeated)):
                if self.rng.random() >= self.lost:
                    self.under_way.append((tick + int(self.rng.integers(0, self.latest + 1)), end, data))

    def deliver(self, tick: int) -> None:
        due = [one for one in self.under_way if one[0] <= tick]
        self.under_way = [one for one in self.under_way if one[0] > tick]
        self.rng.shuffle(due)  # type: ignore[arg-type]
        for _, end, data in due:
            self.number += 1
            end.mkdir(parents=True, exist_ok=True)
            (end / f"{self.rng.integers(1 << 30)}-{self.number}{SUFFIX}").write_bytes(data)


@dataclass
class Field:
    """Sites with folders of their own, a centre, and what every site held at every check."""

    rule: Rule
    root: Path
    mover: Mover
    step: int = 10  # seconds from check to check
    held: dict[tuple[str, int], Floats] = field(default_factory=dict)
    now: int = 1_000
    behind: int = 0  # seconds that the centre's clock is behind
    problems: tuple[str, ...] = ()  # that the centre told of at the last tick

    @property
    def store(self) -> Path:
        return self.root / "centre.duckdb"

    def tick(self, tick: int, vectors: Sequence[Floats], *, whole: bool = False) -> Standing:
        """Files move, sites check, files move, the centre takes them; with `whole` nothing is lost or late."""
        self.now += self.step
        mover = self.mover
        settings = mover.lost, mover.latest
        if whole:
            mover.lost, mover.latest = 0.0, 0
        for site, vector in zip(self.rule.sites, vectors, strict=True):
            mover.move(self.root / "centre" / TO_SITES, self.root / site / TO_SITES, tick, again=whole, of=site)
            mover.deliver(tick)
            check_vector(self.rule, site, self.root / site / "state", self.root / site, self.now, vector)
            self.held[site, self.now] = vector
            _emptied(self.root / site / TO_SITES)
            mover.move(self.root / site / TO_CENTRE, self.root / "centre" / TO_CENTRE, tick, again=whole)
        mover.deliver(tick)
        self.problems = sync(self.rule, self.store, self.root / "centre", self.now - self.behind).problems
        _emptied(self.root / "centre" / TO_CENTRE)
        mover.lost, mover.latest = settings
        (found,) = standings(self.store, self.now - self.behind)
        return found

    def claimed(self) -> float:
        """The function of what all sites held at the checks that the centre's state rests on."""
        state = read_state(state_folder(self.store) / f"{self.rule.name}.centre")
        assert state is not None
        parts = [self.held[site, one["confirmed"]] for site, one in state["sites"].items()]
        return self.rule.watched.value(np.sum(parts, axis=0))


def _emptied(folder: Path) -> None:
    for path in folder.glob(f"*{SUFFIX}") if folder.is_dir() else []:
        path.unlink()
