"""Decay functions: how much an event still counts at a given age, chosen when the question is asked.

A decay function is never negative, never rises (Cormode, Tirthapura and Xu 2007, Definition 1.1) and is finite at
age 0. Most begin at f(0) = 1; tables and formulas may begin at any `Decay.at_newest`, which is a factor of sums and
counts. What can be guaranteed depends on its `DecayClass`. Any decay may end in a window beyond which nothing counts:
``exp:half_life=30m,window=1d``.

>>> half = parse_decay("exp: half_life = 30m")
>>> half.spec, str(half.decay_class), half([-1, 0, 1800, 3600]).round(9).tolist()
('exp:half_life=30m', 'exponential', [0.0, 1.0, 0.5, 0.25])
"""

from sketches.decay.base import Decay, DecayClass
from sketches.decay.parsing import parse_decay
from sketches.vocabulary import EXAMPLES

__all__ = ["EXAMPLES", "Decay", "DecayClass", "parse_decay"]
