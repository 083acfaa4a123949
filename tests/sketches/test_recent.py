"""Results found last: kept under their key, unless what they are of has changed while they were found."""

from __future__ import annotations

from sketches.recent import Recent


def test_what_was_found_of_something_newer_is_not_kept() -> None:
    """A commit comes while an answer is found; a backup from before it would be answered with it later."""
    kept, commit = Recent[str](4), ["one"]

    def find() -> str:
        commit[0] = "two"
        return "of two"

    assert kept.get("one", find, lambda: commit[0] == "one") == "of two"
    assert kept.get("one", lambda: "of one", lambda: True) == "of one"
    assert kept.get("one", lambda: "again", lambda: True) == "of one"
