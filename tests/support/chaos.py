"""Four streams that are ingested again and again while all goes wrong, and readers that write down what they are told.

Files come whole, cut short, vanish and come back, with times of change from long ago. Runs are killed, told to stop,
lose their workers, run with a clock of yesterday or of before all data. The disk is full for a while, a cleaner takes
what it finds in the temporary folder. Afterwards every answer is compared with the rows of the files that its
generation had, by the ledger, and the store with one that was ingested in peace.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.parquet as pq
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect

from sketches import Question, Sample
from store import Store
from tests.support.browser import Server, serving
from tests.support.paths import ROOT
from tests.support.runs import uncounted
from tests.support.stores import PROCESSES, content

COMMAND: Final = (  # a shell has processes in the background ignore Ctrl-C
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "import wane; sys.exit(wane.main(sys.argv[1:]))"
)
START: Final = 1_767_225_600
STREAMS: Final = {"calls": "parquet", "reads": "csv.gz", "logs": "json.gz", "taps": "parquet"}
SETTINGS: Final = """\
store = "{store}"
[streams.calls]
input = "raw/calls/*.parquet"
source = "site"
id = "id"
time = "t"
value = "v"
weight = "w"
epoch = "10m"
detail = "all"
[streams.reads]
input = "raw/reads/*.csv.gz"
schema = "site STRING, id LONG, t LONG, v LONG, w LONG"
source = "lower(site)"
id = "id"
time = "t"
value = "v"
weight = "w"
epoch = "10m"
detail = "all"
[streams.logs]
input = "raw/logs/*.json.gz"
schema = "site STRING, id LONG, t LONG, v LONG, w LONG"
source = "site"
id = "id"
time = "t"
value = "v + 0"
weight = "w"
epoch = "10m"
detail = "all"
[streams.taps]
input = "raw/taps/*.parquet"
source = "upper(site)"
id = "id"
time = "t"
value = "v"
weight = "w"
epoch = "10m"
detail = "all"
families = ["sample", "qdigest"]
"""
CLOCK: Final = """\
import datetime, os, time
if os.environ.get("WANE_CHAOS_BACK", "0.0") != "0.0":
    import pandas  # its compiled modules never end their import where datetime.datetime is a class of Python
_BACK, _REAL, _DATETIME = float(os.environ.get("WANE_CHAOS_BACK", "0")), time.time, datetime.datetime
class _Earlier(_DATETIME):
    @classmethod
    def now(cls, tz=None):
        return _DATETIME.fromtimestamp(_REAL() - _BACK, tz)
if _BACK:
    time.time, time.time_ns = lambda: _REAL() - _BACK, lambda: int((_REAL() - _BACK) * 1e9)
    datetime.datetime = _Earlier
"""
TRACES: Final = re.compile(
    r"Traceback \(most recent|^\s+at (?:org|java|py4j|scala)\.|Exception in thread|\w+Error: ", re.M
)
CODES: Final = (0, 1, 3, 75, 130, 143, -signal.SIGKILL, -signal.SIGTERM)  # the last before it began to listen
ROWS: Final = 120
DISK: Final = "24m"
READERS: Final = 8


@dataclass
class Outcome:
    """What a time of chaos did, and what was wrong."""

    runs: Counter[str] = field(default_factory=Counter)  # by how they were disturbed
    codes: Counter[int] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)  # by how they came
    answers: int = 0
    generations: int = 0
    drawn: int = 0  # pages of the dashboard
    faults: list[str] = field(default_factory=list)


Rows = list[tuple[str, int, int, int, int]]


@dataclass
class Scene:
    """A folder with raw files, settings, a small disk for the store and a temporary folder of its own."""

    folder: Path
    seed: int
    rows: dict[str, Rows] = field(default_factory=dict)  # by the path of the file
    unfinished: dict[str, bytes] = field(default_factory=dict)  # what is cut short or will vanish, by its path
    vanishing: dict[str, threading.Timer] = field(default_factory=dict)  # what makes it vanish
    outcome: Outcome = field(default_factory=Outcome)
    mounted: bool = False
    longest: float = 600.0  # seconds that a run may take
    engine: str = "spark"
    readers: int = READERS

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    @property
    def store(self) -> Path:
        return self.disk / "wane.duckdb"

    def __post_init__(self) -> None:
        for name in ("tmp", "disk", "clock", *(f"raw/{stream}" for stream in STREAMS)):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "clock/sitecustomize.py").write_text(CLOCK)
        for name, store in (("wane", self.store), ("peace", self.folder / "peace.duckdb")):
            text = SETTINGS.format(store=store)
            if self.engine == "local":  # it finds the types of JSON by itself
                logs = text.index("schema", text.index("[streams.logs]"))
                text = text[:logs] + text[text.index("\n", logs) + 1 :]
            (self.folder / f"{name}.toml").write_text(text)

    @contextmanager
    def small_disk(self) -> Iterator[None]:
        """Mount a small disk in memory, where that is allowed."""
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(self.disk)]
        self.mounted = (
            bool(shutil.which("mount")) and not subprocess.run(mount, capture_output=True, check=False).returncode
        )
        try:
            yield
        finally:
            if self.mounted:
                subprocess.run(["umount", "-l", str(self.disk)], check=False)

    def feed(self, rng: random.Random, how: str) -> None:
        """A new file of every stream."""
        for stream, ending in STREAMS.items():
            number = len(self.rows)
            path = self.folder / f"raw/{stream}/{number:05}.{ending}"
            rows = [
                (
                    f"site{rng.randrange(4)}",
                    1000 * number + one,
                    START + rng.randrange(86_400),
                    rng.randrange(500),
                    rng.randrange(5),
                )
                for one in range(ROWS)
            ]
            data = encoded(rows, ending)
            self.rows[str(path)] = rows
            self.outcome.files[how] += 1
            if how == "cut short":
                path.write_bytes(data[: rng.randrange(1, len(data) - 8)])
                self.unfinished[str(path)] = data
                continue
            hidden = path.with_name(f".{path.name}")
            hidden.write_bytes(data)
            if how == "from long ago":
                os.utime(hidden, (START - 10_000_000, START - 10_000_000))
            hidden.rename(path)
            if how == "vanishes":
                self.unfinished[str(path)] = data
                timer = threading.Timer(rng.uniform(0.0, 4.0), lambda gone=path: gone.unlink(missing_ok=True))
                timer.daemon = True
                self.vanishing[str(path)] = timer
                timer.start()

    def finish_files(self, most: int) -> None:
        """Complete what is cut short, and bring back what has vanished."""
        for path in list(self.unfinished)[:most]:
            data, there = self.unfinished.pop(path), Path(path)
            if path in self.vanishing:
                self.vanishing.pop(path).join()
            hidden = there.with_name(f".{there.name}")
            hidden.write_bytes(data)
            hidden.rename(there)

    def run(self, *more: str, config: str = "wane.toml", back: float = 0.0) -> subprocess.Popen[str]:
        paths = os.pathsep.join([str(self.folder / "clock"), str(ROOT)])
        tmp = str(self.folder / "tmp")
        how = ("--engine", "local") if self.engine == "local" else ("--master", "local[1]")
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, "ingest", "--config", config, "--quiet", *how, *more],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONPATH": paths, "TMPDIR": tmp, "WANE_CHAOS_BACK": str(back)},
        )

    def processes(self) -> list[str]:
        """What runs have started and is there: Java, workers."""
        told, found = f"TMPDIR={self.folder / 'tmp'}".encode(), []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if told in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(f"process {entry.name}: {(entry / 'cmdline').read_bytes()[:60]!r}")
        return found

    def generation(self) -> int:
        return Store(self.store).catalogue().generation if self.store.exists() else 0

    def ended(self, process: subprocess.Popen[str], how: str) -> int:
        """Wait for a run, and look at what it said."""
        try:
            said, _ = process.communicate(timeout=self.longest)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
            self.outcome.faults.append(f"a run ({how}) did not end")
        self.outcome.runs[how] += 1
        self.outcome.codes[process.returncode] += 1
        if process.returncode not in CODES:
            self.outcome.faults.append(f"a run ({how}) ended with {process.returncode}: {said[-300:]}")
        if TRACES.search(said):
            self.outcome.faults.append(f"a run ({how}) printed a stack trace: {said[-1500:]}")
        return process.returncode


def encoded(rows: Rows, ending: str) -> bytes:
    """The rows as a file of that kind."""
    names = ("site", "id", "t", "v", "w")
    if ending == "parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), sink)
        return bytes(sink.getvalue())
    text = io.StringIO()
    if ending == "csv.gz":
        csv.writer(text).writerows([names, *rows])
    else:
        text.writelines(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    return gzip.compress(text.getvalue().encode(), mtime=0)


def below(ancestor: int) -> dict[int, bytes]:
    """The processes that a process has started, and theirs, with their command lines."""
    parents, commands = dict[int, int](), dict[int, bytes]()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(entry.name)] = (entry / "cmdline").read_bytes()
    found, wanted = dict[int, bytes](), [ancestor]
    while wanted:
        children = [one for one, parent in parents.items() if parent in wanted]
        found |= {one: commands.get(one, b"") for one in children}
        wanted = children
    return found


def _seconds(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def _strike(scene: Scene, process: subprocess.Popen[str], rng: random.Random, how: str, patience: float) -> None:
    """Hit a run after a while."""
    deadline = time.monotonic() + rng.uniform(0.2, 1.0) * patience
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        if how in _SIGNALS:
            process.send_signal(_SIGNALS[how])
        elif how == "a worker killed":
            workers = [
                one for one, command in below(process.pid).items() if b"pyspark" in command and b"java" not in command
            ]
            for worker in workers[-1:]:
                os.kill(worker, signal.SIGKILL)
        elif how == "Java killed":
            for one, command in below(process.pid).items():
                if b"java" in command.split(b"\0")[0]:
                    os.kill(one, signal.SIGKILL)
    if how == "a full disk" and scene.mounted:
        _fill(scene.disk)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        (scene.disk / "ballast").unlink()
    elif how == "a cleaner":
        while process.poll() is None:
            entries = [*(scene.folder / "tmp").rglob("*")]
            if entries:
                gone = rng.choice(entries)
                shutil.rmtree(gone, ignore_errors=True) if gone.is_dir() else gone.unlink(missing_ok=True)
            time.sleep(0.3)


def _fill(disk: Path) -> None:
    with contextlib.suppress(OSError), (disk / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 14))


_SIGNALS: Final = {"SIGKILL": signal.SIGKILL, "SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}
_BACK: Final = {"a clock of yesterday": 86_400.0, "a clock of before the data": 3e7}
DISTURBED: Final = (
    *_SIGNALS,
    "a worker killed",
    "Java killed",
    "a full disk",
    "a cleaner",
    *_BACK,
    "two at once",
    "in peace",
)
COMING: Final = ("whole", "cut short", "vanishes", "from long ago")


def disturbed_run(scene: Scene, rng: random.Random, how: str, patience: float) -> None:
    """One run, disturbed; one that was told to stop must have committed nothing, of any stream."""
    before = scene.generation()
    process = scene.run(back=_BACK.get(how, 0.0))
    other = scene.run() if how == "two at once" else None
    _strike(scene, process, rng, how, patience)
    code = scene.ended(process, how)
    if other is not None:
        scene.ended(other, how)
    elif code in (130, 143, -signal.SIGTERM) and scene.generation() != before:
        scene.outcome.faults.append(f"a run that ended with {code} has committed")


def finish(scene: Scene) -> None:
    """Peace: all files are there, and runs take them."""
    scene.finish_files(len(scene.rows))
    time.sleep(0.1)
    for _ in range(3):
        if scene.ended(scene.run(), "in peace") == 0:
            break
    else:
        scene.outcome.faults.append("in peace, three runs did not take all files")
    deadline = time.monotonic() + 30
    while (running := scene.processes()) and time.monotonic() < deadline:  # Java needs a moment to end
        time.sleep(0.2)
    left = [one.name for one in (scene.folder / "tmp").glob("wane-*")] + running
    left += [one.name for one in scene.disk.iterdir() if one.name.startswith(".")]
    if left:
        scene.outcome.faults.append(f"left for ever: {', '.join(left)}")


QUESTIONS: Final = {
    "count": Question("count", counting="events"),
    "sum": Question("sum", of="weight"),
    "values": Question("sum", of="value"),
    "high": Question("correlated-count", tau=250.0, counting="events"),
}
EXACT: Final[dict[str, Callable[[Rows], int]]] = {
    "count": len,
    "sum": lambda rows: sum(row[4] for row in rows),
    "values": lambda rows: sum(row[3] for row in rows),
    "high": lambda rows: sum(row[3] >= 250 for row in rows),
}


def told(store: Path) -> dict[str, Any]:
    """What a store says that does not tell in how many runs it came: totals, files, rejected rows, answers, samples."""
    whole, opened = content(store), Store(store)
    found: dict[str, Any] = {name: whole[name] for name in ("epochs", "sources", "rejects", "set_aside", "sketches")}
    found["sketches"] = [(*row[:5], row[-1]) for row in whole["sketches"]]
    found["files"] = sorted((row[1], row[2], row[4], row[5]) for row in whole["files"])
    for stream in STREAMS:
        for question in (*QUESTIONS.values(), Question("median"), Question("mean", "exp:half_life=2h", of="value")):
            estimate = opened.ask(stream, question).estimate
            found[f"{stream}: {question}"] = (round(estimate.value, 9), estimate.exact, estimate.as_of)
        head = next(row[-1] for row in whole["heads"] if row[0] == stream)
        segments = sorted(row[2:] for row in whole["segments"] if row[0] == stream)
        sample, damaged = Sample.from_parts(head, [row[-1] for row in segments])
        assert not damaged
        found[f"{stream}: events"] = uncounted(sample).to_bytes()
    return found


def read(path: Path, number: int, until: Any, notes: Path) -> None:
    """Ask until it is over, and write down every answer with its generation; two of the readers are commands."""
    rng, store = random.Random(number), Store(path)
    with notes.open("w") as file:
        while not until.is_set():
            time.sleep(rng.uniform(2.0, 5.0) if number >= READERS - 2 else rng.uniform(0.3, 1.0))
            if not path.exists():
                continue
            stream, name = rng.choice(list(STREAMS)), rng.choice(list(QUESTIONS))
            try:
                if number >= READERS - 2:
                    found = _by_command(path, stream, name)
                else:
                    store = store if number % 2 else Store(path)
                    if stream not in store.catalogue().streams:
                        continue
                    answer = store.ask(stream, QUESTIONS[name])
                    found = [answer.provenance.generation, answer.estimate.value, answer.estimate.exact]
            except Exception as error:  # noqa: BLE001 - whatever reaches a reader is what this is about
                found = [f"{type(error).__name__}: {error}"]
            file.write(json.dumps([stream, name, *found]) + "\n")
            file.flush()


_OPTIONS: Final = {
    "count": ("--aggregate", "count", "--counting", "events"),
    "sum": ("--aggregate", "sum", "--of", "weight"),
    "values": ("--aggregate", "sum", "--of", "value"),
    "high": ("--aggregate", "correlated-count", "--tau", "250", "--counting", "events"),
}


def _by_command(path: Path, stream: str, name: str) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "query", "--store", str(path), "--stream", stream, *_OPTIONS[name], "--json"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    if done.returncode:
        unknown = f"no stream '{stream}'" in done.stderr
        return ["unknown"] if unknown else [f"exit code {done.returncode}: {done.stderr.strip()[-500:]}"]
    found = json.loads(done.stdout)
    return [found["generation"], found["estimate"], found["lower"] == found["upper"]]


@contextmanager
def readers(scene: Scene) -> Iterator[list[Path]]:
    """Processes that ask for as long as the block takes."""
    until = PROCESSES.Event()
    numbers = range(READERS - scene.readers, READERS)
    notes = [scene.folder / f"reader-{number}.jsonl" for number in numbers]
    processes = [
        PROCESSES.Process(target=read, args=(scene.store, number, until, file))
        for number, file in zip(numbers, notes, strict=True)
    ]
    for process in processes:
        process.start()
    try:
        yield notes
    finally:
        until.set()
        for process in processes:
            process.join(60)
            process.kill()


def check_answers(scene: Scene, notes: list[Path]) -> None:
    """Every answer is that of its generation, by the ledger; and no reader saw time go backwards."""
    brought: dict[str, list[tuple[int, str]]] = {stream: [] for stream in STREAMS}
    for run, stream, path, *_ in content(scene.store)["files"]:
        brought[stream].append((run, path))
    known: dict[tuple[str, str, int], int] = {}
    seen, outcome = set[int](), scene.outcome
    for file in notes:
        newest = 0
        for line in file.read_text().splitlines():
            stream, name, generation, *found = json.loads(line)
            if generation == "unknown":
                continue
            if not found:
                outcome.faults.append(f"{file.stem} was told: {generation}")
                continue
            key = (stream, name, generation)
            if key not in known:
                there = [row for run, path in brought[stream] if run <= generation for row in scene.rows[path]]
                known[key] = EXACT[name](there)
            outcome.answers += 1
            seen.add(generation)
            if [round(found[0], 6), found[1]] != [known[key], True]:  # sums of values are of floats
                outcome.faults.append(f"{file.stem}: {name} of {stream} in {generation} is {known[key]}, not {found}")
            if generation < newest:
                outcome.faults.append(f"{file.stem} saw generation {generation} after {newest}")
            newest = generation
    outcome.generations = len(seen)


_NUMBER: Final = re.compile(r"Generation ([\d,]+)")


def look(server: Server, stream: str, name: str) -> list[Any]:
    """Open a page as a browser does: the number on it, and the generation it says it is of; or what went wrong."""
    asked = BackMsg()
    asked.rerun_script.query_string = urlencode({"stream": stream, "decay": "none"} | PAGES[name])
    number, generation = "", ""
    with connect(f"ws://127.0.0.1:{server.port}/_stcore/stream", subprotocols=["streamlit"], max_size=None) as socket:
        socket.send(asked.SerializeToString())
        while True:
            message = ForwardMsg()
            message.ParseFromString(socket.recv(timeout=60))
            if message.WhichOneof("type") == "script_finished":
                break
            element = message.delta.new_element
            kind = element.WhichOneof("type")
            if kind == "exception" or (kind == "alert" and "fault of the program" in element.alert.body):
                return [str(getattr(element, kind))[:500]]
            if kind == "metric":
                number = element.metric.body
            if kind == "markdown" and (of := _NUMBER.search(element.markdown.body)):
                generation = of[1]
    if not (number and generation):
        return ["unknown"]  # there is no store yet, or not this stream
    return [int(generation.replace(",", "")), float(number.replace(",", "")), True]


PAGES: Final[dict[str, dict[str, str]]] = {
    "count": {"aggregate": "count", "counting": "events"},
    "sum": {"aggregate": "sum", "of": "weight"},
    "values": {"aggregate": "sum", "of": "value"},
}


@contextmanager
def onlooker(scene: Scene, server: Server) -> Iterator[Path]:
    """Somebody who opens one page of the dashboard after the other for as long as the block takes."""
    until, notes, rng = threading.Event(), scene.folder / "dashboard.jsonl", random.Random(scene.seed)

    def watch() -> None:
        with notes.open("w") as file:
            while not until.wait(rng.uniform(0.5, 2.0)):
                stream, name = rng.choice(list(STREAMS)), rng.choice(list(PAGES))
                try:
                    found = look(server, stream, name)
                except Exception as error:  # noqa: BLE001 - as for readers
                    found = [f"{type(error).__name__}: {error}"]
                scene.outcome.drawn += len(found) > 1
                file.write(json.dumps([stream, name, *found]) + "\n")
                file.flush()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield notes
    finally:
        until.set()
        thread.join(90)


def chaos(
    scene: Scene,
    disturbances: Iterable[str],
    in_peace: Callable[[Path], object],
    *,
    files: int = 1,
) -> Outcome:
    """Disturbed runs, one after the other, while others ask; then peace, and what was found wrong.

    The first run is left in peace, and tells how long one takes here: moments of the others are drawn from that.
    `files` is how many each stream gets before a run; `in_peace` ingests the files of a settings file into its store.
    """
    rng, log = random.Random(scene.seed), scene.folder / "dashboard.log"
    with scene.small_disk():
        with serving(scene.store, log) as server, readers(scene) as notes, onlooker(scene, server) as page:
            scene.feed(rng, "whole")
            patience = _seconds(lambda: scene.ended(scene.run(), "in peace"))
            scene.longest = max(120.0, 15.0 * patience)
            for number, how in enumerate(disturbances):
                for one in range(files):
                    scene.feed(rng, COMING[(number * files + one) % len(COMING)])
                disturbed_run(scene, rng, how, patience)
                scene.finish_files(rng.randrange(3))
            finish(scene)
        check_answers(scene, [*notes, page])
        if TRACES.search(log.read_text()):
            scene.outcome.faults.append(f"the dashboard printed: {log.read_text()[-1500:]}")
        in_peace(scene.folder / "peace.toml")
        disturbed, peaceful = told(scene.store), told(scene.folder / "peace.duckdb")
        scene.outcome.faults += [
            f"{name} differ from those of a store in peace" for name in peaceful if disturbed[name] != peaceful[name]
        ]
        for stream in STREAMS:
            there = [row for path, rows in scene.rows.items() if f"/{stream}/" in path for row in rows]
            found = Store(scene.store).ask(stream, QUESTIONS["values"]).estimate
            if (round(found.value, 6), found.exact) != (EXACT["values"](there), True):
                scene.outcome.faults.append(f"{stream} lacks events at the end, or has some twice")
    return scene.outcome
