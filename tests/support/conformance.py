"""One set of promises that every family keeps; a family joins with one `Family` line in `test_conformance.py`.

A promise that a family does not make (that repeats change nothing, that batches leave no trace) is switched off in its
line, so that what a family does *not* promise can be read there too.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sketches import Estimate, Events, Question
from sketches.encoding.envelope import Envelope, open_envelope, seal
from sketches.errors import CorruptError, IncompatibleError, WaneError
from tests.support.paths import ROOT
from tests.support.streams import STREAMS, Stream

ROWS = 400
SMALL_PEAK = 4 << 20  # bytes: far above a sketch of a few kB, far below what an absurd count would ask for
SERIES_TOLERANCE = 2e-4  # of the value: a series may share work between as-of times
BOUND_TOLERANCE = 0.01  # of the width, for the ends of the interval, which also allow for the shared work
_KIND_SAMPLES = ("uniform", "floats", "keys", "heavy-weights", "empty", "single")


@dataclass(frozen=True)
class Family:
    """How to build one family's sketches, what to ask them, and which promises it makes."""

    name: str
    build: Callable[..., Any]
    parameters: Mapping[str, Any]
    unequal: Mapping[str, Any]  # the same names with other values: such sketches must not merge
    questions: tuple[Question, ...]
    key_questions: tuple[Question, ...] = ()  # none: text values are not for this family
    duplicate_insensitive: bool = True
    batches_leave_no_trace: bool = True  # many inserts give the bytes of one build
    merges_leave_no_trace: bool = True  # the tree of merges does not show in the bytes
    reproducible: bool = True  # the same events give the same bytes
    random: bool = True  # the seed decides more than the number in the header
    answers_the_past: bool = True  # as-of times before the newest event
    streams: tuple[str, ...] = field(default=tuple(STREAMS))
    variant: str = ""  # where a family is built in several ways

    @property
    def title(self) -> str:
        return f"{self.name} {self.variant}".strip()

    def of(self, stream: Stream, seed: int = 1, **changed: Any) -> Any:
        return self.build(events_of(stream), **{**self.parameters, **changed}, seed=seed)

    def questions_for(self, stream: Stream) -> tuple[Question, ...]:
        return self.key_questions if stream.is_text else self.questions

    def named(self, rows: int = ROWS, seed: int = 7) -> list[Stream]:
        """Every stream the family is for."""
        made = (STREAMS[name](rows, seed) for name in self.streams)
        return [stream for stream in made if self.key_questions or not stream.is_text]

    def few(self, rows: int) -> list[Stream]:
        """One stream of every kind of values, the empty and the single one."""
        return [stream for stream in self.named(rows) if stream.name in _KIND_SAMPLES]


def events_of(stream: Stream) -> Events:
    return Events.of(stream.ids, stream.t, stream.v, stream.w)


def digests(families: list[Family]) -> dict[str, str]:
    """What another process must come to as well: a digest of the bytes of every family on every stream."""
    return {
        f"{family.title} {stream.name}": hashlib.sha256(family.of(stream).to_bytes()).hexdigest()
        for family in families
        for stream in family.named()
    }


@contextmanager
def little_memory(limit: int = SMALL_PEAK) -> Iterator[None]:
    """Fail where what runs inside allocates more than the limit at any moment."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit, f"{peak} bytes were allocated at once; {limit} are allowed"


def warm(sketches: Iterable[Any]) -> list[Any]:
    """The sketches, once written and read: what numba compiles on the way is no memory that they take."""
    found = list(sketches)
    for sketch in found:
        type(sketch).from_bytes(sketch.to_bytes())
    return found


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Of this process alone, whatever else the machine does."""
    start = time.process_time()
    yield
    taken = time.process_time() - start
    assert taken < seconds, f"took {taken:.1f} s, {seconds} s are allowed"


def agree(one: Estimate, other: Estimate) -> bool:
    """Equal answers, NaN being equal to NaN."""
    return repr(one) == repr(other)


@st.composite
def few_events(draw: st.DrawFn, most: int = 60) -> Stream:
    """Rows over few ids, times, values and weights, so that repeats, conflicts and ties are common."""
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 40), st.integers(-6, 6), st.integers(0, 2), st.sampled_from((1, 1, 2, 70))),
            max_size=most,
        )
    )
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    return Stream.of("few", columns[0], columns[1], np.array(columns[2], np.int64), columns[3])


class Conformance:
    """The promises; a subclass gives the `family` fixture."""

    def test_building_leaves_its_input_alone(self, family: Family) -> None:
        """The caller's columns hold the same numbers after the build as before it."""
        for stream in family.named():
            columns = [np.array(column) for column in (stream.ids, stream.t, stream.v, stream.w)]
            family.build(Events.of(*columns), **family.parameters, seed=1)
            for before, after in zip((stream.ids, stream.t, stream.v, stream.w), columns, strict=True):
                assert (before == after).all(), stream.name

    def test_a_sketch_does_not_alias_its_input(self, family: Family) -> None:
        """A caller that fills its buffers with the next batch does not change sketches of the last one."""
        if not family.reproducible:
            pytest.skip(f"{family.name} gives other bytes each time")
        for stream in family.named():
            columns = [np.array(column) for column in (stream.ids, stream.t, stream.v, stream.w)]
            sketch = family.build(Events.of(*columns), **family.parameters, seed=1)
            for column in columns:
                column[:] = column[::-1] if column.dtype == object else 2 * column[::-1]
            assert sketch.to_bytes() == family.of(stream).to_bytes(), stream.name

    def test_a_sketch_does_not_alias_its_bytes(self, family: Family) -> None:
        """Overwriting a receive buffer does not change the sketch that was loaded from it."""
        for stream in family.few(ROWS):
            sketch = family.of(stream)
            data = sketch.to_bytes()
            buffer = bytearray(data)
            loaded = type(sketch).from_bytes(buffer)
            buffer[:] = bytes(len(buffer))
            assert loaded.to_bytes() == data, stream.name

    def test_merging_and_answering_change_no_sketch(self, family: Family) -> None:
        """Sketches are values: merge, insert and answer leave both sides as they were, and answers repeat."""
        for stream in family.named():
            half, rest = stream.split(2, seed=3)
            left, right = family.of(half), family.of(rest)
            before = left.to_bytes(), right.to_bytes()
            first = [left.answer(question) for question in family.questions_for(stream)]
            left.merge(right)
            left.insert(events_of(rest))
            second = [left.answer(question) for question in family.questions_for(stream)]
            assert (left.to_bytes(), right.to_bytes()) == before, stream.name
            assert all(agree(one, other) for one, other in zip(first, second, strict=True)), stream.name

    def test_many_batches_equal_one(self, family: Family) -> None:
        """A stream inserted batch by batch, empty batches among them, gives the bytes of one build."""
        if not family.batches_leave_no_trace:
            pytest.skip(f"{family.name} does not promise it")
        for stream in family.named():
            sketch = family.of(stream.take(np.arange(0)))
            for batch in stream.split(7, seed=5):
                sketch = sketch.insert(events_of(batch))
            assert sketch.to_bytes() == family.of(stream).to_bytes(), stream.name

    def test_order_and_repeats_leave_no_trace(self, family: Family) -> None:
        """Shuffled rows, each up to four times, give the bytes of the stream itself."""
        if not family.duplicate_insensitive:
            pytest.skip(f"{family.name} counts repeats")
        for stream in family.named():
            assert family.of(stream.duplicated(11, 4)).to_bytes() == family.of(stream).to_bytes(), stream.name

    @given(few_events(), st.integers(0, 5))
    @settings(max_examples=40, suppress_health_check=[HealthCheck.differing_executors])
    def test_merging_commutes_and_associates(self, family: Family, stream: Stream, cut: int) -> None:
        """Whatever the order and, where promised, the tree of merges, the bytes are the same."""
        a, b, c = (family.of(part) for part in stream.split(3, cut))
        assert a.merge(b).to_bytes() == b.merge(a).to_bytes()
        if family.merges_leave_no_trace:
            assert a.merge(b).merge(c).to_bytes() == a.merge(b.merge(c)).to_bytes()

    @given(few_events(), st.integers(0, 5))
    @settings(max_examples=40, suppress_health_check=[HealthCheck.differing_executors])
    def test_merging_is_idempotent(self, family: Family, stream: Stream, cut: int) -> None:
        """Merging what is already inside, all of it or a part, changes no byte."""
        if not family.duplicate_insensitive:
            pytest.skip(f"{family.name} counts repeats")
        whole, part = family.of(stream), family.of(stream.split(2, cut)[0])
        data = whole.to_bytes()
        assert whole.merge(whole).to_bytes() == data
        assert whole.merge(part).to_bytes() == data == part.merge(whole).to_bytes()

    @pytest.mark.slow
    def test_other_processes_agree(self, family: Family, elsewhere: list[dict[str, str]]) -> None:
        """Processes with other hash salts of Python come to the same bytes."""
        if not family.reproducible:
            pytest.skip(f"{family.name} gives other bytes each time")
        expected = digests([family])
        for found in elsewhere:
            assert {name: found[name] for name in expected} == expected

    def test_the_seed_matters_and_nothing_else(self, family: Family) -> None:
        """The same seed gives the same bytes twice; another seed, being a parameter, gives others."""
        if not family.reproducible:
            pytest.skip(f"{family.name} gives other bytes each time")
        for stream in family.named():
            data, other = family.of(stream, seed=3).to_bytes(), family.of(stream, seed=4).to_bytes()
            assert data == family.of(stream, seed=3).to_bytes()
            assert data != other
            if family.random and len(stream):
                assert open_envelope(data).body != open_envelope(other).body, stream.name

    def test_bytes_come_back(self, family: Family) -> None:
        """What was written loads, writes the same bytes, has the size it says, and gives the same answers."""
        for stream in family.named():
            sketch = family.of(stream)
            data = sketch.to_bytes()
            loaded = type(sketch).from_bytes(data)
            assert loaded.to_bytes() == data, stream.name
            assert sketch.nbytes == loaded.nbytes == len(data)
            assert type(sketch).from_envelope(open_envelope(data)).to_bytes() == data
            for question in family.questions_for(stream):
                assert agree(sketch.answer(question), loaded.answer(question)), (stream.name, question)

    def test_loaded_sketches_merge_alike(self, family: Family) -> None:
        """A merge of loaded sketches gives the bytes of the merge of the sketches that were written."""
        for stream in family.named():
            a, b = (family.of(part) for part in stream.split(2, seed=9))
            loaded = [type(sketch).from_bytes(sketch.to_bytes()) for sketch in (a, b)]
            assert loaded[0].merge(loaded[1]).to_bytes() == a.merge(b).to_bytes(), stream.name

    def test_the_empty_sketch_is_the_identity(self, family: Family) -> None:
        """Merging with a sketch of nothing, on either side, changes no byte; nothing and nothing are nothing."""
        nothing = family.of(STREAMS["empty"](0, 0))
        for stream in family.named():
            sketch = family.of(stream)
            assert sketch.merge(nothing).to_bytes() == sketch.to_bytes(), stream.name
            assert nothing.merge(sketch).to_bytes() == sketch.to_bytes(), stream.name

    def test_unequal_parameters_do_not_merge(self, family: Family) -> None:
        """A merge of sketches with other parameters or seeds is refused, empty ones too, and both are named."""
        for stream in family.few(50):
            sketch = family.of(stream, seed=1)
            with pytest.raises(IncompatibleError, match=r"\b17\b") as refusal:
                sketch.merge(family.of(stream, seed=17))
            assert "seed=1," in str(refusal.value) or "seed=1)" in str(refusal.value)
            for name, value in family.unequal.items():
                with pytest.raises(IncompatibleError) as refusal:
                    sketch.merge(family.of(stream, **{name: value}))
                assert str(value) in str(refusal.value), f"{refusal.value} does not name {value}"
                assert str(family.parameters[name]) in str(refusal.value)

    def test_every_truncation_is_refused(self, family: Family) -> None:
        """Bytes cut off at any length, and bytes with anything after them, are corrupt; found fast, and small."""
        sketches = warm(family.of(stream) for stream in family.few(60))
        with within(20), little_memory():
            for sketch in sketches:
                data = sketch.to_bytes()
                for length in range(len(data)):
                    with pytest.raises(CorruptError):
                        type(sketch).from_bytes(data[:length])
                with pytest.raises(CorruptError):
                    type(sketch).from_bytes(data + b"\0")

    def test_every_flipped_bit_is_refused(self, family: Family) -> None:
        """One bit flipped at any offset makes the bytes corrupt; found fast, and without a large allocation."""
        sketches = warm(family.of(stream) for stream in family.few(60))
        with within(30), little_memory():
            for sketch in sketches:
                data = bytearray(sketch.to_bytes())
                for offset in range(len(data)):
                    bit = 1 << (offset * 5 + len(data)) % 8
                    data[offset] ^= bit
                    with pytest.raises(CorruptError):
                        type(sketch).from_bytes(bytes(data))
                    data[offset] ^= bit

    @pytest.mark.slow
    def test_hostile_bodies_do_no_harm(self, family: Family) -> None:
        """Bytes with a right checksum but an absurd content at any offset load as something harmless or not at all."""
        for stream in family.few(20):
            sketch = family.of(stream)
            envelope = open_envelope(sketch.to_bytes())
            _all_harmless(family, stream, [replace(envelope, body=body) for body in hostile(envelope.body)])

    @pytest.mark.slow
    def test_hostile_parameters_do_no_harm(self, family: Family) -> None:
        """The same for the parameters: missing ones, too many, and absurd ones."""
        for stream in family.few(20):
            envelope = open_envelope(family.of(stream).to_bytes())
            forged = [replace(envelope, parameters=parameters) for parameters in hostile(envelope.parameters)]
            _all_harmless(family, stream, forged)

    def test_random_bodies_do_no_harm(self, family: Family) -> None:
        """Noise of any length in a well sealed envelope is refused or harmless, never a crash or a hang."""
        rng = np.random.default_rng(0)
        for stream in family.few(20):
            envelope = open_envelope(family.of(stream).to_bytes())
            lengths = (*range(64), *rng.integers(64, 4096, 200).tolist())
            _all_harmless(family, stream, [replace(envelope, body=rng.bytes(length)) for length in lengths])

    def test_other_families_bytes_are_refused(self, family: Family) -> None:
        """Bytes of another family are corrupt for this one, and the message names both."""
        sketch = family.of(STREAMS["single"](1, 1))
        envelope = open_envelope(sketch.to_bytes())
        foreign = seal("stranger", envelope.version, envelope.parameters, 1, envelope.body)
        with pytest.raises(CorruptError, match=f"stranger.*{family.name}|{family.name}.*stranger"):
            type(sketch).from_envelope(open_envelope(foreign))
        with pytest.raises(CorruptError, match="stranger"):
            type(sketch).from_bytes(foreign)

    def test_answers_have_their_shape(self, family: Family) -> None:
        """Every question, on every stream, also at odd as-of times, gives lower ≤ value ≤ upper or a NaN in between."""
        for stream in family.named():
            sketch = family.of(stream)
            moments: tuple[int | None, ...] = (None,)
            if len(stream):
                moments += (int(stream.t.max()) + 10**6,)
                if family.answers_the_past:
                    moments += (int(stream.t.min()) - 1, int(np.median(stream.t)))
            for question in family.questions_for(stream):
                for moment in moments:
                    asked = question if moment is None else question.at(moment)
                    estimate = sketch.answer(asked)
                    assert isinstance(estimate, Estimate)
                    assert _in_order(estimate.value, estimate.lower, estimate.upper), (stream.name, asked, estimate)
                    assert all(_in_order(item.estimate, item.lower, item.upper) for item in estimate.items)
                    assert 0 < estimate.confidence <= 1
                    assert estimate.family == family.name
                    assert estimate.guarantee
                    json.dumps(estimate.as_dict(), allow_nan=False)

    @pytest.mark.slow
    def test_a_series_agrees_with_single_answers(self, family: Family) -> None:
        """A series gives at each of its times the answer that one question at that time gives."""
        for stream in family.named():
            if not len(stream):
                continue
            sketch = family.of(stream)
            first = stream.t.min() - 5 if family.answers_the_past else stream.t.max()
            moments = np.linspace(first, stream.t.max() + 500, 5).astype(np.int64)
            for question in family.questions_for(stream):
                if question.aggregate in ("heavy-hitters", "inner-product"):
                    continue
                series = sketch.series(question, moments)
                assert len(series) == len(moments)
                assert (series.as_of == moments).all()
                for at, moment in enumerate(moments.tolist()):
                    single = sketch.answer(question.at(moment))
                    slack = SERIES_TOLERANCE * np.nan_to_num(abs(single.value)) + 1e-12
                    margin = 3.0 * slack + BOUND_TOLERANCE * np.nan_to_num(single.upper - single.lower, posinf=0.0)
                    for name, room in (("value", slack), ("lower", margin), ("upper", margin)):
                        expected, found = getattr(single, name), getattr(series, name)[at]
                        ranked = question.aggregate in ("quantile", "median") or question.threshold is not None
                        if ranked and name != "value":
                            # values lie apart: a limit may move outwards by one of them, never inwards
                            if expected == found:  # both may be infinite
                                continue
                            outwards = expected - found if name == "lower" else found - expected
                            assert outwards >= -room or (np.isnan(expected) and np.isnan(found)), (question, name)
                            continue
                        assert _close(expected, found, room), (stream.name, question, moment, name, expected, found)

    def test_nothing_has_a_series_too(self, family: Family) -> None:
        """An empty sketch answers a series like any other, and an empty series is empty."""
        sketch = family.of(STREAMS["empty"](0, 0))
        for question in family.questions:
            if question.aggregate in ("heavy-hitters", "inner-product"):
                continue
            series = sketch.series(question, np.array([0, 100]))
            assert all(_in_order(*triple) for triple in zip(series.value, series.lower, series.upper, strict=True))
            assert len(sketch.series(question, np.array([], np.int64))) == 0


def elsewhere_digests(module: str) -> list[dict[str, str]]:
    """`digests` of the module's FAMILIES from two processes that salt Python's own hash differently."""
    code = (
        "import json; from tests.support.conformance import digests; "
        f"from {module} import FAMILIES; print(json.dumps(digests(FAMILIES)))"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
        )
        for salt in ("1", "12345")
    ]
    return [json.loads(process.communicate(timeout=400)[0]) for process in running]


def hostile(content: bytes) -> Iterator[bytes]:
    """The content with one bit flipped, or numbers at the edges of their types written over it, all along it."""
    edges = (
        b"\xff" * 9 + b"\x01",  # the largest number of 64 bits in groups of 7
        struct.pack("<q", -1),
        struct.pack("<q", -(2**63)),
        struct.pack("<q", 2**62),
        struct.pack("<d", float("nan")),
        struct.pack("<d", float("inf")),
        bytes(8),
        b"\xff\xff",
    )
    for offset in range(len(content)):
        if offset < 64 or offset % 3 == 0:
            changed = bytearray(content)
            changed[offset] ^= 1 << offset % 8
            yield bytes(changed)
        edge = edges[offset // 2 % len(edges)] if offset >= 64 else None
        if edge is not None and offset % 2:
            continue
        for written in edges if edge is None else (edge,):
            changed = bytearray(content)
            changed[offset : offset + len(written)] = written
            yield bytes(changed[: len(content)])
    for length in range(0, len(content), 1 + len(content) // 200):
        yield content[:length]
    yield content + bytes(8)


def _all_harmless(family: Family, stream: Stream, forged: list[Envelope]) -> None:
    """Load, write, merge and ask: only our own exceptions may come of it, soon, and loading allocates little."""
    sketch = family.of(stream)
    questions = family.questions_for(stream)
    sealed = [seal(part.family, part.version, part.parameters, part.seed, part.body) for part in forged]
    with within(60):
        for turn, data in enumerate(sealed):
            try:
                loaded = type(sketch).from_bytes(data)
            except CorruptError:
                continue
            loaded.to_bytes()
            if turn % 2 == 0:  # to ask all of them takes as long as all the rest
                with suppress(WaneError), np.errstate(all="ignore"):
                    loaded.answer(questions[turn // 2 % len(questions)])
            with suppress(WaneError):
                sketch.merge(loaded).to_bytes()
    with little_memory():
        for data in sealed[::4]:
            with suppress(CorruptError):
                type(sketch).from_bytes(data)


def _in_order(value: float, lower: float, upper: float) -> bool:
    return bool(lower <= upper if np.isnan(value) else lower <= value <= upper) or all(np.isnan([value, lower, upper]))


def _close(expected: float, found: float, slack: float) -> bool:
    return bool(np.isnan(expected) and np.isnan(found)) or expected == found or bool(abs(expected - found) <= slack)
