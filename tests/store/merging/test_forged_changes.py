"""Files of changes that somebody made up, with a right checksum: a sentence, nothing merged, nothing huge allocated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from sketches import Question
from sketches.encoding.byte_planes import read_block, write_block
from sketches.encoding.envelope import Reader, Writer
from sketches.errors import WaneError
from store import Store, commit, export, merge
from store.merging import change_file
from store.merging.contribution import Contribution
from store.merging.site_ids import MAGIC
from store.packed_columns import read_table, write_table
from tests.store.merging.test_merge import run
from tests.support.stores import STREAM
from tests.support.streams import STREAMS

WORDS: Final = np.array(["x"], object)


class Changes:
    """A whole file of changes, taken apart."""

    def __init__(self, data: bytes) -> None:
        begin = len(MAGIC) + 4
        end = begin + int.from_bytes(data[len(MAGIC) : begin], "little")
        self.header: dict[str, Any] = json.loads(data[begin:end])
        self.body, _ = read_block(data, end, self.header["bytes"])

    def headed(self, header: bytes | dict[str, Any]) -> bytes:
        """With another header."""
        return sealed(header if isinstance(header, bytes) else json.dumps(self.header | header).encode(), self.body)

    def with_parts(self, changed: Callable[[list[bytes]], None]) -> bytes:
        """With other settings, contribution, list of sketches, list of those that are brought, and stretches."""
        reader, writer = Reader(self.body), Writer()
        writer.varint(reader.varint())
        parts = [reader.blob(), reader.blob()]
        counts = []
        for _ in range(2):
            counts.append(reader.varint())
            parts.append(reader.blob())
        payloads = [reader.blob() for _ in read_table(parts[3])["start"]]
        counts.append(reader.varint())
        name, head, stretches = reader.blob(), reader.blob(), reader.blob()
        reader.done()
        parts.append(stretches)
        changed(parts)
        writer.blob(parts[0])
        writer.blob(parts[1])
        for count, part in zip(counts, parts[2:4], strict=False):
            writer.varint(count)
            writer.blob(part)
        for payload in payloads:
            writer.blob(payload)
        writer.varint(counts[2])
        for part in (name, head, parts[4]):
            writer.blob(part)
        body = writer.to_bytes()
        return sealed(json.dumps(self.header | {"bytes": len(body)}).encode(), body)

    def described(self, **other: Any) -> bytes:
        """With other settings of the stream itself."""
        return self.with_parts(lambda parts: put(parts, 0, json.dumps(json.loads(parts[0]) | other).encode()))

    def set(self, **other: Any) -> bytes:
        """With other settings, as they are kept."""

        def changed(parts: list[bytes]) -> None:
            stream = json.loads(parts[0])
            put(parts, 0, json.dumps(stream | {"settings": stream["settings"] | other}).encode())

        return self.with_parts(changed)

    def contributed(self, **other: Any) -> bytes:
        return self.with_parts(
            lambda parts: put(parts, 1, replace(Contribution.from_bytes(parts[1]), **other).to_bytes())
        )

    def listed(self, which: int, **other: Any) -> bytes:
        """With other columns in a list of sketches, or none of them where it is None."""

        def changed(parts: list[bytes]) -> None:
            table = read_table(parts[which]) | other
            put(parts, which, write_table({name: column for name, column in table.items() if column is not None}))

        return self.with_parts(changed)


def put(parts: list[bytes], which: int, data: bytes) -> None:
    parts[which] = data


def sealed(header: bytes, body: bytes) -> bytes:
    content = MAGIC + len(header).to_bytes(4, "little") + header + write_block(body)
    return content + hashlib.blake2b(content, digest_size=32).digest()


def many_columns() -> bytes:
    """Three kilobytes that announce gigabytes."""
    writer = Writer()
    writer.varint(1 << 20)
    writer.varint(200)
    for number in range(200):
        writer.blob(b"c%d" % number)
        writer.blob(bytes(11))
    return writer.to_bytes()


FORGED: Final[dict[str, Callable[[Changes], bytes]]] = {
    "deep header": lambda good: good.headed(b"[" * 200_000),
    "no table": lambda good: good.headed(b"[1]"),
    "endless generation": lambda good: good.headed({"generation": float("inf")}),
    "large generation": lambda good: good.headed({"generation": 10**30}),
    "generation below 0": lambda good: good.headed({"generation": -1}),
    "store is a list": lambda good: good.headed({"store": ["a"]}),
    "commit is a path": lambda good: good.headed({"commit": "../../x"}),
    "name moves the cursor": lambda good: good.headed({"name": "\x1b[2J"}),
    "name is half a character": lambda good: good.headed({"name": "\ud800"}),
    "since is endless": lambda good: good.headed({"since": float("inf")}),
    "endless epoch": lambda good: good.described(epoch=float("inf")),
    "large epoch": lambda good: good.described(epoch=10**40),
    "endless unit": lambda good: good.described(unit=[float("inf"), 1]),
    "three units": lambda good: good.described(unit=[1, 1, 1]),
    "nameless stream": lambda good: good.described(name=""),
    "deep settings": lambda good: good.with_parts(lambda parts: put(parts, 0, b'{"a":' * 100_000)),
    "families are a text": lambda good: good.set(families="sample"),
    "a step is a text": lambda good: good.set(weight_step="0"),
    "accuracy is a text": lambda good: good.set(epsilon="x"),
    "a kind is a number": lambda good: good.set(kind=5),
    "a field's kind is unknown": lambda good: good.set(field_kinds={"status": "secret"}),
    "a field's name is none": lambda good: good.set(fields={"a b": "c"}),
    "a name is a list": lambda good: good.set(value_name=["<script>"]),
    "no gaps": lambda good: good.contributed(aside={}),
    "gaps are texts": lambda good: good.contributed(
        aside=dict.fromkeys(("source", "start", "length", "family", "reason"), WORDS)
    ),
    "no rejects": lambda good: good.contributed(rejects={}),
    "rows are texts": lambda good: good.contributed(rejects={"reason": WORDS, "rows": WORDS}),
    "no segments": lambda good: good.contributed(segments={}),
    "another tally": lambda good: good.contributed(tallies={"sample": b"wane"}),
    "sources are numbers": lambda good: good.listed(2, source=np.arange(1)),
    "no formats": lambda good: good.listed(3, format=None),
    "gigabytes": lambda good: good.with_parts(lambda parts: put(parts, 2, many_columns())),
    "no stretches": lambda good: good.listed(4, oldest=None, newest=None),
    "stretches are texts": lambda good: good.listed(4, oldest=WORDS, newest=WORDS),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Changes:
    folder = tmp_path_factory.mktemp("site")
    rows = STREAMS["late"](300, 1)
    commit(folder / "site.duckdb", run({"a": rows.take(rows.t < rows.t.min() + 60)}))
    return Changes(export(folder / "site.duckdb", folder / "site.changes").path.read_bytes())


@pytest.mark.parametrize("name", FORGED)
def test_forged_changes_are_refused(good: Changes, tmp_path: Path, name: str) -> None:
    """In a sentence that calls it a file of changes, and the centre has nothing of it."""
    (tmp_path / "a.changes").write_bytes(FORGED[name](good))
    with pytest.raises(WaneError, match="file of changes"):
        merge(tmp_path / "centre.duckdb", [str(tmp_path / "a.changes")])
    assert not Store(tmp_path / "centre.duckdb").catalogue().streams if (tmp_path / "centre.duckdb").exists() else True


def test_what_is_put_together_again_is_taken(good: Changes, tmp_path: Path) -> None:
    """The tests above change what they say, and nothing else."""
    (tmp_path / "a.changes").write_bytes(good.with_parts(lambda parts: None))
    merge(tmp_path / "centre.duckdb", [str(tmp_path / "a.changes")])
    assert Store(tmp_path / "centre.duckdb").ask(STREAM, Question("count", "none")).estimate.value > 0


def test_more_sketches_than_a_table_may_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand sources have a million hours after six weeks: their list takes several tables."""
    monkeypatch.setattr(change_file, "MOST_ROWS", 3)
    commit(tmp_path / "site.duckdb", run({name: STREAMS["late"](300, at) for at, name in enumerate("abc")}))
    changes = export(tmp_path / "site.duckdb", tmp_path / "site.changes").path
    merge(tmp_path / "centre.duckdb", [str(changes)])
    before, after = (
        {family: set(epochs) for family, epochs in Store(path).catalogue().streams[STREAM].sketches.items()}
        for path in (tmp_path / "site.duckdb", tmp_path / "centre.duckdb")
    )
    assert before == after
    assert max(map(len, before.values())) > 3
