"""Results found last: kept under their key, unless what they are of has changed while they were found."""

from __future__ import annotations

from sketches.recent import Recent


def test_what_was_found_of_something_newer_is_not_kept() -> None:
    """A commit comes while an answer is found; a backup from before it would be answered with it later."""
    kept, commit = Recent[str](4), ["one"]

    def find() -> str:
        commit[0] = "two"
        return "of two"

    assert kept.get("one", find, lambda _: commit[0] == "one") == "of two"
    assert kept.get("one", lambda: "of one", lambda _: True) == "of one"
    assert kept.get("one", lambda: "again", lambda _: True) == "of one"


def test_results_are_kept_by_their_size() -> None:
    """The oldest go until all fit; one that takes more than a quarter of the room is not kept."""
    kept = Recent[str](100, most=40, size=len)
    for name in "abcde":
        kept.get(name, lambda name=name: 10 * name)  # type: ignore[misc]
    assert kept.get("a", lambda: "anew") == "anew"
    assert kept.get("e", lambda: "anew") == "eeeeeeeeee"
    kept.get("large", lambda: 11 * "x")
    assert kept.get("large", lambda: "anew") == "anew"
