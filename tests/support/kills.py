"""Operations on a store that are killed amid their work, and what the store must be afterwards.

An operation makes a store, then changes it. Its child process is killed with SIGKILL: some time after it began, or by
itself before it executes the n-th line of the store's code, so that every rename, commit and checkpoint gets its turn.
Then the store must be in one of the states that are known from a run in peace, and the same operation once more must
bring it to the same end.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import numpy as np

import wane
from sketches.errors import WaneError
from sketches.registry import FAMILIES
from store import AlreadyIngestedError, EpochSketches, InputFile, Reject, Run, commit, merge
from store.database import WAIT, create
from store.schema import TABLES, migrate
from tests.support.old_stores import LEDGER_1, VERSION_1, fill_by_epoch, migrate_as_it_was
from tests.support.paths import ROOT
from tests.support.stores import EPOCH, PROCESSES, STREAM, beside, content, events, overlapping, parts, run_of
from tests.support.streams import START, STREAMS
from tests.support.streams import Stream as Rows

SOURCES = ("east", "west", "south")
OTHER = "readings"  # a stream that no operation may touch
BUILD: dict[str, dict[str, Any]] = {
    "sample": {"detail": 1},  # thins out a few thousand rows
    "integral": {"decay": "window:20m"},
    "histogram": {},
    "qdigest": {},
    "exponential": {"decay": "exp:half_life=20m"},
    "retractable": {"decay": "exp:half_life=20m"},
    "ecm": {},
}
_LAST_LINES: Final = 150
_PATIENCE: Final = 120.0  # seconds
_VOLATILE: Final = frozenset({"elapsed_ms", "generation", "file_bytes"})  # a commit may leave free room
_QUESTIONS: Final = (
    ("sum", "--decay", "exp:half_life=20m", "--counting", "weight"),
    ("count", "--decay", "none", "--source", "east"),
)

Tables = dict[str, list[tuple[Any, ...]]]


class Size(NamedTuple):
    """How many events a run brings, and into sketches of which families."""

    rows: int
    families: tuple[str, ...] = tuple(BUILD)


class Operation(NamedTuple):
    """How a store is made and what is then done to it; `between` leads to states on the way that are whole as well.

    `brings` is the run that it commits; the words `gone` must not be in the file's bytes once it is done.
    """

    make: Callable[[Path, Size], None]
    change: Callable[[Path, Run], object]
    brings: Callable[[Size], Run]
    between: tuple[Callable[[Path], None], ...] = ()
    gone: tuple[bytes, ...] = ()


def _parts(by_source: Mapping[str, Rows], families: Sequence[str]) -> list[EpochSketches]:
    """The rows of every source cut into epochs, with sketches of these families."""
    found = []
    for one in parts(by_source, families=()):
        rows = by_source[one.source]
        inside = events(rows.take((rows.t >= one.start) & (rows.t < one.start + one.length)))
        built = [FAMILIES[name].build(inside, epsilon=0.2, **BUILD[name]) for name in families]  # type: ignore[attr-defined]
        found.append(replace(one, sketches=built))
    return found


@cache
def _run(number: int, size: Size, stream: str = STREAM, sources: tuple[str, ...] = SOURCES) -> Run:
    """What run `number` brings: so many events, many of them late, and a line in every table of the ledger."""
    rows = STREAMS["late"](size.rows, 1).distinct()
    rows = Rows.of("late", rows.ids + number * 10**7, rows.t + 900 * number, rows.v, rows.w)
    return run_of(
        _parts(overlapping(rows, sources, 3), size.families),
        stream=stream,
        rows=len(rows),
        files=[InputFile(f"{number}.parquet", number, f"f{number}", number, number)],
        rejects=[Reject("no time", number, [f"rejected {number}"])],
    )


def _make_nothing(path: Path, size: Size) -> None:
    """There is no store yet."""


def _make(path: Path, size: Size) -> None:
    commit(path, [_run(1, size), _run(1, Size(300, ("sample", "qdigest")), OTHER, ("a", "b"))])


def _more(size: Size) -> Run:
    return _run(2, size)


def _make_more(path: Path, size: Size) -> None:
    _make(path, size)
    commit(path, _more(size))


def _make_old(path: Path, size: Size) -> None:
    create(path, [*VERSION_1, *LEDGER_1])
    rows = STREAMS["late"](size.rows, 1).distinct()
    busy = int(rows.t.min()) // EPOCH * EPOCH + 2 * EPOCH  # until then epochs are thinned, later ones complete
    rows = rows.take((rows.t < busy) | (rows.ids % 16 == 0))
    fill_by_epoch(path, overlapping(rows, SOURCES, 3), epsilon=0.2)
    migrate_as_it_was(path, 3)


def _more_of_one_family(size: Size) -> Run:
    return _run(2, Size(size.rows // 4, ("sample",)))


def _command(*arguments: str) -> Callable[[Path, Run], None]:
    """A command of wane's that changes the store."""

    def change(path: Path, _: Run) -> None:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = wane.main([arguments[0], "--store", str(path), *arguments[1:]])
        if code:
            raise WaneError(said.getvalue())

    return change


def _forgetting(*some: str, gone: str) -> Operation:
    return Operation(_make_more, _command("forget", "--stream", STREAM, *some), _more, gone=(gone.encode(),))


def _make_centre(path: Path, size: Size) -> None:
    """A store with two sites merged, and what a third one will bring beside it, more of the first included."""
    folder = path.parent.parent
    for number in (1, 2, 3):
        commit(folder / f"{number}.duckdb", _run(number, size, STREAM, tuple(f"{one}{number}" for one in SOURCES)))
    commit(path, _run(1, Size(300, ("sample", "qdigest")), OTHER, ("a", "b")))
    merge(path, [str(folder / f"{number}.duckdb") for number in (1, 2)])
    commit(folder / "1.duckdb", _run(4, size, STREAM, tuple(f"{one}1" for one in SOURCES)))


def _merge_more(path: Path, _: Run) -> None:
    merge(path, [str(path.parent.parent / f"{number}.duckdb") for number in (1, 2, 3)])


OPERATIONS: Final[dict[str, Operation]] = {
    "ingest": Operation(_make, commit, _more),
    "ingest, first run": Operation(_make_nothing, commit, _more, (lambda path: create(path, list(TABLES)),)),
    "migration": Operation(_make_old, commit, _more_of_one_family, (lambda path: migrate(path, WAIT),)),
    "merging": Operation(_make_centre, _merge_more, _more),
    "compaction": Operation(_make_more, _command("compact"), _more),
    "forgetting a range": _forgetting("--from", str(START + 900), "--to", str(START + 2000), gone="rejected 2"),
    "forgetting a source": _forgetting("--source", SOURCES[2], gone=SOURCES[2]),
    "forgetting a stream": _forgetting(gone=STREAM),
}


class Moment(NamedTuple):
    """When a process dies: so many seconds after it began, or before it executes a line of the store's code."""

    seconds: float | None = None
    line: int | None = None


def _child(name: str, path: Path, run: Run, line: int | None, ready: Connection) -> None:
    """Do it, and say when it begins and how many lines it took; kill itself before a line where one is given."""
    done = 0
    folder = str(ROOT / "store")

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal done
        if not frame.f_code.co_filename.startswith(folder):
            return None
        if event == "line":
            done += 1
            if done == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    ready.send(0)
    if line is not None:
        sys.settrace(trace)
    OPERATIONS[name].change(path, run)
    sys.settrace(None)
    ready.send(done)


def cut(name: str, path: Path, size: Size, moment: Moment) -> tuple[float, int | None]:
    """Do it in a process that is killed at a moment; the seconds it had, and its lines where it ended before."""
    here, there = PROCESSES.Pipe(duplex=False)
    child = PROCESSES.Process(target=_child, args=(name, path, OPERATIONS[name].brings(size), moment.line, there))
    child.start()
    there.close()
    try:
        assert here.poll(_PATIENCE), "the child did not begin"
        here.recv()
        began = time.perf_counter()
        here.poll(_PATIENCE if moment.seconds is None else moment.seconds)
        taken = time.perf_counter() - began
    finally:
        child.kill()
        child.join()
    with here:
        try:
            return taken, here.recv()
        except EOFError:
            assert child.exitcode == -signal.SIGKILL, "the operation failed"
            return taken, None


def tables_of(path: Path) -> Tables | None:
    """All that a store holds but for its random names; None where there is no store."""
    if not path.exists():
        return None
    found = content(path)
    timeless = {"runs": [(*row[:2], *row[4:]) for row in found["runs"]]}  # merging is timed by the clock
    if "sites" in found:
        timeless["sites"] = [(*row[:6], *row[8:]) for row in found["sites"]]
    return found | timeless | {"wane": [row[:2] for row in found["wane"]]}


def answers_of(path: Path) -> list[Any]:
    """What the command line says of a store, without what tells how long it took."""
    found = [_said("info", "--store", str(path))]
    asked = [(STREAM, one) for one in _QUESTIONS] + [(OTHER, _QUESTIONS[0])]
    for stream, question in asked:
        found.append(_said("query", "--store", str(path), "--stream", stream, "--aggregate", *question))
    return found


def _said(*arguments: str) -> Any:
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = wane.main([*arguments, "--json"])
    return _steady(json.loads(output.getvalue())) if code == 0 else errors.getvalue()


def _steady(shape: Any) -> Any:
    if isinstance(shape, dict):
        return {key: _steady(value) for key, value in shape.items() if key not in _VOLATILE}
    return [_steady(one) for one in shape] if isinstance(shape, list) else shape


class State(NamedTuple):
    """A state that a store may be in: all of its rows, and what it says to questions."""

    name: str
    tables: Tables | None
    answers: list[Any]


@dataclass
class Landed:
    """What kills of an operation led to."""

    kills: int = 0
    states: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    doubled: int = 0
    left: int = 0  # the most files that lay beside a store after a kill
    stay: int = 0  # the most that lay there after the next run, too
    faults: list[str] = field(default_factory=list)


class Scene:
    """An operation in a folder: its states as they are in peace, and kills of it; `ask` is what a user would ask."""

    def __init__(self, name: str, folder: Path, size: Size, ask: Callable[[Path], list[Any]] = answers_of) -> None:
        self.name, self.size, self.ask, self.landed = name, size, ask, Landed()
        self.operation = OPERATIONS[name]
        self.path = folder / "store" / "wane.duckdb"
        self._template = folder / "template.duckdb"
        self.path.parent.mkdir(parents=True)
        self.operation.make(self.path, size)
        if self.path.exists():
            shutil.copyfile(self.path, self._template)
        self.states = [self._seen("before")]
        for lead in self.operation.between:
            lead(self.path)
            self.states.append(self._seen("between"))
        self.anew()
        _, lines = cut(name, self.path, size, Moment(line=-1))
        assert lines is not None, "the operation failed in peace"
        self.lines = lines
        self.states.append(self._seen("after"))
        self.anew()

    def _seen(self, name: str) -> State:
        return State(name, tables_of(self.path), self.ask(self.path))

    @cached_property
    def seconds(self) -> float:
        """What it takes in peace."""
        self.anew()
        taken, _ = cut(self.name, self.path, self.size, Moment())
        self.anew()
        return taken

    def anew(self) -> None:
        """A folder with the store as it was made and nothing else."""
        shutil.rmtree(self.path.parent)
        self.path.parent.mkdir()
        if self._template.exists():
            shutil.copyfile(self._template, self.path)

    def kill(self, moment: Moment) -> bool:
        """Kill once, look at the store as a user would, and write down what is found; False where it ended before."""
        landed = self.landed
        _, lines = cut(self.name, self.path, self.size, moment)
        if lines is not None:
            self.anew()
            return False
        landed.kills += 1
        left = beside(self.path)
        landed.left = max(landed.left, len([one for one in left if not one.endswith(".wal")]))
        state = self._state()
        landed.states[state.name if state else "neither"] += 1
        if state is None:
            self._blame(moment)
        elif self.ask(self.path) != state.answers:
            landed.faults.append(f"{moment}: the store is as {state.name}, but answers otherwise")
        elif state.name == "after":
            self._check_gone(moment)
        return True

    def finish(self) -> None:
        """Do it again, in peace: the store is as if it had never been killed, and nothing is left beside it."""
        with contextlib.suppress(AlreadyIngestedError, WaneError):
            self.operation.change(self.path, self.operation.brings(self.size))
        last = self.states[-1]
        now = tables_of(self.path)
        if now is None or last.tables is None or now | {"wane": []} != last.tables | {"wane": []}:
            self.landed.faults.append("done again after a kill, the store differs from one that was not killed")
        if self.ask(self.path) != last.answers:
            self.landed.faults.append("done again after a kill, the store answers otherwise")
        self._check_gone(None)
        left = beside(self.path)
        self.landed.stay = max(self.landed.stay, len(left))
        if left:
            self.landed.faults.append(f"left for ever: {', '.join(left)}")

    def is_before(self) -> bool:
        return tables_of(self.path) == self.states[0].tables

    def _state(self) -> State | None:
        now = tables_of(self.path)
        return next((state for state in self.states if state.tables == now), None)

    def _blame(self, moment: Moment) -> None:
        """Count rows that should be there in any case, and rows that should not."""
        before, after, now = (
            Counter((name, repr(row)) for name, rows in (tables or {}).items() for row in rows)
            for tables in (self.states[0].tables, self.states[-1].tables, tables_of(self.path))
        )
        self.landed.lost += ((before & after) - now).total()
        self.landed.doubled += (now - (before | after)).total()
        self.landed.faults.append(f"{moment}: the store is in no state that it may be in")

    def _check_gone(self, moment: Moment | None) -> None:
        files = [file for file in self.path.parent.rglob("*") if file.is_file()]
        for word in self.operation.gone:
            found = [file.name for file in files if word in file.read_bytes()]
            if found:
                self.landed.faults.append(f"{moment}: {word!r} was forgotten, and is in {', '.join(found)}")


def moment_of(number: int, scene: Scene, rng: np.random.Generator) -> Moment:
    """In turns: any moment of the operation, one of its last third, before a line of the store's code; of these every
    other one among the last, which commit, checkpoint, copy and rename."""
    if number % 3 == 2:
        first = 1 if number % 2 else max(1, scene.lines - _LAST_LINES)
        return Moment(line=int(rng.integers(first, scene.lines + 1)))
    return Moment(seconds=scene.seconds * rng.uniform(0.0 if number % 3 == 0 else 0.67, 1.0))


def killed(name: str, folder: Path, size: Size, kills: int, seed: int) -> Landed:
    """Kill an operation so many times. Every other time the next one starts with what the last one left.

    Where it ended before its moment came, that does not count, and another moment is drawn.
    """
    scene = Scene(name, folder, size)
    rng = np.random.default_rng(seed)
    for number in range(4 * kills):
        if not scene.kill(moment_of(number, scene, rng)):
            continue
        last = scene.landed.kills == kills
        if last or scene.landed.kills % 2 or not scene.is_before():
            scene.finish()
            scene.anew()
        if last:
            return scene.landed
    scene.landed.faults.append(f"only {scene.landed.kills} kills hit it before its end")
    return scene.landed
