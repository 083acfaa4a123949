"""Old epochs that stand together, and are folded knowing what came after them: bounds as of now and as of the past."""

from __future__ import annotations

from tests.support.stated import verdicts  # noqa: F401
