"""Paper D as it is printed, one element at a time: the peer of the `histogram` family.

One line differs. Algorithms 2 and 4 set T_i to the end of the bucket that overflow discards. At level 0, which takes
every timestamp, that bucket may be a late element older than what was discarded before; T_0 would fall back, a gap be
taken for complete, and Lemma 1 fail. So T_i never falls here, unless `literal` asks for the printed line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(order=True)
class Bucket:
    """⟨w(b), l(b), r(b)⟩; disjoint buckets sort by their ranges."""

    left: int
    right: int
    weight: int

    def halves(self, weight: int) -> tuple[Bucket, Bucket]:
        """What it splits into, with this weight each."""
        middle = (self.left + self.right + 1) // 2
        return Bucket(self.left, middle - 1, weight), Bucket(middle, self.right, weight)


@dataclass
class Splittable:
    """Levels S_0 to S_M over the timestamps 0 to W - 1, W being a power of 2, for sums of at most B.

    >>> peer = Splittable(epsilon=0.5, width=8, most=100)
    >>> for t in (5, 1, 5, 7):
    ...     peer.arrive(t)
    >>> peer.since(2), peer.alpha, len(peer.levels)
    (3, 20, 8)
    """

    epsilon: float
    width: int
    most: int
    literal: bool = False
    alpha: int = field(init=False)
    levels: list[list[Bucket]] = field(init=False)
    discarded: list[int] = field(init=False)  # T_i

    def __post_init__(self) -> None:
        """Algorithm 1."""
        self.alpha = math.ceil(self.path * (2 + self.epsilon) / self.epsilon)
        last = math.ceil(math.log2(self.most))
        self.levels = [[], *([Bucket(0, self.width - 1, 0)] for _ in range(last))]
        self.discarded = [-1] * (last + 1)

    @property
    def path(self) -> int:
        """1 + log W, the buckets that a path of splits has at most."""
        return self.width.bit_length()

    def arrive(self, t: int) -> None:
        """Algorithm 2."""
        self._at_level_0(1, t)
        for level in range(1, len(self.levels)):
            bucket = self._holder(level, t)
            if bucket is None:
                continue
            bucket.weight += 1
            if bucket.weight == 1 << (level + 1) and bucket.left != bucket.right:
                self._split(level, bucket)
        self._overflow()

    def arrive_weighted(self, weight: int, t: int) -> None:
        """Algorithm 4."""
        self._at_level_0(weight, t)
        for level in range(1, len(self.levels)):
            bucket = self._holder(level, t)
            rest = weight
            while bucket is not None and rest:
                heavy = 1 << (level + 1)
                if bucket.left == bucket.right or rest + bucket.weight < heavy:
                    bucket.weight += rest
                    rest = 0
                else:
                    rest += bucket.weight - heavy
                    one, other = self._split(level, bucket)
                    bucket = one if t < other.left else other
        self._overflow()

    def level_for(self, start: int) -> int:
        """The level that Algorithm 3 reads for the window from `start` on."""
        return next(level for level, lost in enumerate(self.discarded) if lost < start)

    def since(self, start: int) -> int:
        """Algorithm 3: the estimate of what has a timestamp of at least `start`, which the paper calls c - w."""
        return self.estimate(self.level_for(start), start)

    def estimate(self, level: int, start: int) -> int:
        """Definition 2: the weight of a level's buckets that begin at `start` or later."""
        return sum(bucket.weight for bucket in self.levels[level] if bucket.left >= start)

    def _at_level_0(self, weight: int, t: int) -> None:
        bucket = self._holder(0, t)
        if bucket is None:
            self.levels[0].append(Bucket(t, t, weight))
        else:
            bucket.weight += weight

    def _holder(self, level: int, t: int) -> Bucket | None:
        return next((bucket for bucket in self.levels[level] if bucket.left <= t <= bucket.right), None)

    def _split(self, level: int, bucket: Bucket) -> tuple[Bucket, Bucket]:
        one, other = bucket.halves(1 << level)
        self.levels[level].remove(bucket)
        self.levels[level] += [one, other]
        return one, other

    def _overflow(self) -> None:
        for level, buckets in enumerate(self.levels):
            if len(buckets) > self.alpha:
                buckets.sort()
                lost = buckets[len(buckets) - self.alpha - 1].right
                del buckets[: len(buckets) - self.alpha]
                self.discarded[level] = lost if self.literal else max(lost, self.discarded[level])
