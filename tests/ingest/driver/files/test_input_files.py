"""Input files: what the globs find, and what the ledger makes of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ingest.driver.configuration.settings import StreamSettings
from ingest.driver.files import input_files as inputs
from ingest.driver.files.input_files import FoundFile, compare, content_of, find_files, fingerprint, unchanged
from sketches.units import SECOND
from store.writing.ledger import KnownFile


def stream(*globs: str | Path, kind: str = "csv") -> StreamSettings:
    return StreamSettings(
        name="calls",
        inputs=tuple(map(str, globs)),
        format=kind,
        expressions={},
        unit=SECOND,
        epoch=3600,
        epsilon=0.05,
        delta=0.05,
        seed=0,
        families=("sample",),
        max_future=None,
        max_age=None,
    )


def write(path: Path, content: str = "x") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return str(path)


def paths(*globs: str | Path, kind: str = "csv") -> list[str]:
    return [file.path for file in find_files(stream(*globs, kind=kind))]


def ledger(*files: FoundFile, rows: int = 5) -> list[KnownFile]:
    """The ledger after these files were read as they are now."""
    return [
        KnownFile(1, file.path, file.size, fingerprint(file.path), file.modified, rows, None, None) for file in files
    ]


def found_in(folder: Path) -> list[FoundFile]:
    return find_files(stream(folder / "*.csv"))


def test_globs_find_files_in_the_order_of_their_paths(tmp_path: Path) -> None:
    """Several globs that overlap give each file once, sorted, with its size and time."""
    wanted = sorted(write(tmp_path / name, name) for name in ("b.csv", "a.csv", "sub/c.csv", "B.csv"))
    write(tmp_path / "a.txt")
    found = find_files(stream(tmp_path / "**/*.csv", tmp_path / "*.csv", tmp_path / "b.csv"))
    assert [file.path for file in found] == wanted
    status = Path(wanted[1]).stat()
    assert (found[1].size, found[1].modified) == (status.st_size, status.st_mtime_ns)
    assert paths(tmp_path / "nothing*.csv") == []


def test_a_folder_stands_for_its_files_of_the_format(tmp_path: Path) -> None:
    """Folders below belong to it, other formats do not."""
    wanted = sorted(write(tmp_path / "in" / name) for name in ("a.csv", "2026/b.csv.gz", "2026/01/c.CSV"))
    write(tmp_path / "in" / "a.json")
    write(tmp_path / "in" / "notes")
    assert paths(tmp_path / "in") == wanted
    assert paths(f"{tmp_path / 'in'}/") == wanted
    assert paths(tmp_path / "i*") == wanted


def test_hidden_files_and_folders_are_left_alone(tmp_path: Path) -> None:
    """What Spark is still writing lies below _temporary, and no way of naming the input finds it."""
    wanted = [write(tmp_path / "in" / "a.csv")]
    for name in (".a.csv", "_a.csv", "_temporary/0/b.csv", ".hidden/b.csv", "_SUCCESS", "_delta_log/0.csv"):
        write(tmp_path / "in" / name)
    assert paths(tmp_path / "in") == wanted
    assert paths(tmp_path / "in/*") == wanted
    assert paths(tmp_path / "in/**") == wanted
    assert paths(tmp_path / "in/**/*.csv") == wanted
    assert paths(tmp_path / "*/*.csv") == wanted
    assert paths(tmp_path / "in/*/0/*.csv") == []


def test_a_hidden_folder_that_is_named_is_read(tmp_path: Path) -> None:
    """Whoever writes the underscore into the settings means it."""
    inside = write(tmp_path / "_raw/.x/a.csv")
    write(tmp_path / "_raw/.x/_b.csv")
    assert paths(tmp_path / "_raw/.x/*.csv") == [inside]
    assert paths(tmp_path / "_raw/.x") == [inside]


def test_links_are_names_of_their_own(tmp_path: Path) -> None:
    """A link to a file is found under its own name, and one that leads nowhere is not found."""
    target = write(tmp_path / "elsewhere/a.csv")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "link.csv").symlink_to(target)
    (folder / "broken.csv").symlink_to(tmp_path / "absent.csv")
    (tmp_path / "door").symlink_to(tmp_path / "elsewhere")
    assert paths(folder / "*.csv") == [str(folder / "link.csv")]
    assert paths(folder) == [str(folder / "link.csv")]
    assert paths(tmp_path / "door/*.csv") == [str(tmp_path / "door/a.csv")]


def test_only_files_are_files(tmp_path: Path) -> None:
    """A pipe would block whoever reads it; a folder named like a file is a folder."""
    os.mkfifo(tmp_path / "pipe.csv")
    inside = write(tmp_path / "folder.csv/part.csv")
    assert paths(tmp_path / "*.csv") == [inside]


def test_relative_globs_become_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger knows a file by its whole path, whatever way it was named."""
    write(tmp_path / "a.csv")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    assert paths("*.csv") == paths("sub/../*.csv") == [str(tmp_path / "a.csv")]


def test_a_fingerprint_is_of_the_content(tmp_path: Path) -> None:
    """Equal content gives equal fingerprints, and one other byte anywhere gives another."""
    content = "x" * 3_000_000
    one, two = write(tmp_path / "a", content), write(tmp_path / "b", content)
    assert fingerprint(one) == fingerprint(two)
    others = [content[:-1] + "y", "y" + content[1:], content[:-1], content + "x", ""]
    marks = {fingerprint(write(tmp_path / "c", other)) for other in others}
    assert len(marks) == len(others)
    assert fingerprint(one) not in marks


def test_files_are_new_then_known(tmp_path: Path) -> None:
    """What the ledger does not know is new with its fingerprint; afterwards it is not even opened."""
    write(tmp_path / "a.csv", "a")
    write(tmp_path / "b.csv", "b")
    found = found_in(tmp_path)
    sorted_out = compare(found, [])
    assert [(file.path, file.fingerprint) for file in sorted_out.new] == [(f.path, fingerprint(f.path)) for f in found]
    with pytest.MonkeyPatch.context() as patch:
        known = ledger(*found)
        patch.setattr(inputs, "fingerprint", lambda path: pytest.fail(f"{path} was read"))
        after = compare(found, known)
    assert list(after.known) == found
    assert not any((after.new, after.changed, after.copies, after.gone, after.unreadable))


def test_a_touched_file_is_known_by_its_content(tmp_path: Path) -> None:
    """Another time of change with the same content is not read again."""
    path = write(tmp_path / "a.csv")
    known = ledger(*found_in(tmp_path))
    os.utime(path, ns=(1, 1))
    after = compare(found_in(tmp_path), known)
    assert [file.path for file in after.known] == [path]
    assert not any((after.new, after.changed))


@pytest.mark.parametrize("content", ["bb", "b", ""])
def test_a_rewritten_file_has_changed(tmp_path: Path, content: str) -> None:
    """Other content under a known path is neither new nor known, also at the same size."""
    path = write(tmp_path / "a.csv", "a")
    known = ledger(*found_in(tmp_path))
    write(tmp_path / "a.csv", content)
    os.utime(path, ns=(1, 1))
    after = compare(found_in(tmp_path), known)
    assert [file.path for file in after.changed] == [path]
    assert not any((after.new, after.known, after.copies))


def test_a_copy_is_not_read_again(tmp_path: Path) -> None:
    """The same content under another name counts once, whether the ledger knows it or the same run brings both."""
    write(tmp_path / "a.csv", "same")
    known = ledger(*found_in(tmp_path))
    write(tmp_path / "b.csv", "same")
    after = compare(found_in(tmp_path), known)
    assert [(file.path, original) for file, original in after.copies] == [
        (str(tmp_path / "b.csv"), str(tmp_path / "a.csv"))
    ]
    assert not after.new
    first = compare(found_in(tmp_path), [])
    assert [file.path for file in first.new] == [str(tmp_path / "a.csv")]
    assert [(file.path, original) for file, original in first.copies] == [
        (str(tmp_path / "b.csv"), str(tmp_path / "a.csv"))
    ]


def test_a_moved_file_is_a_copy_of_one_that_is_gone(tmp_path: Path) -> None:
    """Archiving a file neither loses nor repeats it."""
    write(tmp_path / "a.csv", "same")
    known = ledger(*found_in(tmp_path))
    (tmp_path / "a.csv").rename(tmp_path / "z.csv")
    after = compare(found_in(tmp_path), known)
    assert [(file.path, original) for file, original in after.copies] == [
        (str(tmp_path / "z.csv"), str(tmp_path / "a.csv"))
    ]
    assert list(after.gone) == known
    assert not after.new


def test_a_file_that_gave_no_rows_is_no_original(tmp_path: Path) -> None:
    """Content that brought nothing is looked at again under another name: nothing can be counted twice."""
    write(tmp_path / "a.csv", "header only")
    known = ledger(*found_in(tmp_path), rows=0)
    write(tmp_path / "b.csv", "header only")
    assert [file.path for file in compare(found_in(tmp_path), known).new] == [str(tmp_path / "b.csv")]


def test_a_file_that_vanishes_is_told(tmp_path: Path) -> None:
    """A file that is listed and then gone is left for the next run; it is not new."""
    path = write(tmp_path / "a.csv")
    write(tmp_path / "b.csv", "b")
    found = found_in(tmp_path)
    Path(path).unlink()
    after = compare(found, [])
    assert dict(after.unreadable) == {path: "No such file or directory"}
    assert [file.path for file in after.new] == [str(tmp_path / "b.csv")]


def test_a_file_that_cannot_be_looked_at_is_told(tmp_path: Path) -> None:
    """Where even its size is refused, here by links in a circle, a file is told and does not stop the others."""
    circle, fine = tmp_path / "a.csv", write(tmp_path / "b.csv", "b")
    circle.symlink_to(tmp_path / "c.csv")
    (tmp_path / "c.csv").symlink_to(circle)
    after = compare(find_files(stream(tmp_path / "*.csv")), [])
    reason = os.strerror(errno.ELOOP)
    assert dict(after.unreadable) == {str(circle): reason, str(tmp_path / "c.csv"): reason}
    assert [file.path for file in after.new] == [fine]


def test_a_name_that_is_not_text_is_told(tmp_path: Path) -> None:
    """Neither the ledger nor Spark can hold such a name; the file is left, its name shown so that it prints."""
    name = os.fsencode(tmp_path) + b"/caf\xe9.csv"
    Path(os.fsdecode(name)).write_text("x")
    fine = write(tmp_path / "b.csv", "b")
    after = compare(found_in(tmp_path), [])
    assert [file.path for file in after.new] == [fine]
    assert dict(after.unreadable) == {f"{tmp_path}/caf\\udce9.csv": "its name is not UTF-8 text"}


def test_every_file_is_sorted_once(tmp_path: Path) -> None:
    """New, copied, changed, known and unreadable files together are all that were found."""
    for name in "abcdef":
        write(tmp_path / f"{name}.csv", name)
    known = ledger(*found_in(tmp_path)[:4])
    write(tmp_path / "a.csv", "other")
    os.utime(tmp_path / "b.csv", ns=(1, 1))
    write(tmp_path / "e.csv", "c")
    (tmp_path / "d.csv").unlink()
    found = found_in(tmp_path)
    after = compare(found, known)
    names = {
        "new": [file.path for file in after.new],
        "copies": [file.path for file, _ in after.copies],
        "changed": [file.path for file in after.changed],
        "known": sorted(file.path for file in after.known),
        "gone": [entry.path for entry in after.gone],
    }
    short = {key: "".join(Path(path).stem for path in value) for key, value in names.items()}
    assert short == {"new": "f", "copies": "e", "changed": "a", "known": "bc", "gone": "d"}
    assert not after.unreadable


def test_a_file_is_unchanged_until_it_changes(tmp_path: Path) -> None:
    """Size or time of change tell, and so does its absence."""
    path = write(tmp_path / "a.csv", "a")
    (file,) = found_in(tmp_path)
    assert unchanged(file)
    os.utime(path, ns=(1, 1))
    assert not unchanged(file)
    os.utime(path, ns=(file.modified, file.modified))
    assert unchanged(file)
    write(Path(path), "ab")
    os.utime(path, ns=(file.modified, file.modified))
    assert not unchanged(file)
    Path(path).unlink()
    assert not unchanged(file)


def test_folders_that_an_expression_names_are_part_of_the_content() -> None:
    """Others are not: the same bytes in another folder are a copy."""
    said = ["concat(Region, '/')", "id"]
    north = content_of("/in/region=north/day=1/x.csv", "f", said)
    assert north == content_of("/old/region=north/day=2/y.csv", "f", said) != "f"
    assert north != content_of("/in/region=south/day=1/x.csv", "f", said)
    assert north != content_of("/in/region=north/day=1/x.csv", "g", said)
    assert content_of("/in/region=north/x.csv", "f", ["my_region", "id"]) == "f"
    assert content_of("/in/a=b.csv", "f", ["a"]) == "f"


def test_a_ledger_of_before_knows_its_files_in_such_folders(tmp_path: Path) -> None:
    """Touched, moved within its region, or beside the same bytes of another one."""
    north = write(tmp_path / "region=north/a.csv", "same")
    found = find_files(stream(tmp_path / "**/*.csv"))
    known = ledger(*found)
    os.utime(north, ns=(1, 1))
    (again,) = compare(find_files(stream(tmp_path / "**/*.csv")), known, ["region"]).known
    assert again.path == north
    moved, south = write(tmp_path / "region=north/b.csv", "same"), write(tmp_path / "region=south/a.csv", "same")
    after = compare(find_files(stream(tmp_path / "**/*.csv")), known, ["region"])
    assert [file.path for file in after.new] == [south]
    assert [(file.path, original) for file, original in after.copies] == [(moved, north)]
