"""The bytes of the `integral` family bring the sketch back, and damaged ones are refused."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketches import Question
from sketches.encoding.envelope import FORMAT_VERSION, load, open_envelope, seal
from sketches.errors import CorruptError, WaneError
from sketches.event_rules import MAX_TIME
from sketches.sampling.expiry.integral_decay import NEVER
from sketches.sampling.inclusion.nested_sample import NO_CUT
from sketches.sampling.integral import Integral
from tests.sketches.sampling.test_integral import events
from tests.sketches.sampling.test_integral_figures import OVER_AGE, events_of, parameters
from tests.support.streams import STREAMS


def test_merging_loaded_sketches_is_merging_them_before() -> None:
    """Expiries computed anew after loading are those that merging carried along."""
    whole = STREAMS["heavy-weights"](6000, 3)
    left, right = (Integral._of(events(part), parameters("exp:half_life=10m", 100)) for part in whole.split(2, 1))
    merged = left.merge(right)
    again = Integral.from_bytes(left.to_bytes()).merge(Integral.from_bytes(right.to_bytes()))
    assert again.to_bytes() == merged.to_bytes()
    assert (again.copies[0].expiries == Integral.from_bytes(merged.to_bytes()).copies[0].expiries).all()


@pytest.mark.parametrize("name", ["uniform", "heavy-weights", "keys", "floats", "empty", "single"])
@pytest.mark.parametrize("spec", ["none", "window:10m", OVER_AGE])
def test_bytes_bring_the_sketch_back(name: str, spec: str) -> None:
    """Loaded bytes answer alike and write the same bytes again; `nbytes` is their number."""
    stream = STREAMS[name](4000, 1)
    sketch = Integral.build(events(stream), decay=spec, epsilon=0.2, delta=0.01, seed=7)
    data = sketch.to_bytes()
    again = load(data, {"integral": Integral.from_envelope})
    assert again.parameters == sketch.parameters
    assert again.to_bytes() == data
    assert sketch.nbytes == len(data)
    for question in (Question("count", spec), Question("heavy-hitters", spec)):
        assert repr(again.answer(question)) == repr(sketch.answer(question))


@lru_cache(maxsize=1)
def small_sketch() -> Integral:
    return Integral._of(events(STREAMS["heavy-weights"](60, 1)), parameters(OVER_AGE, 5))


def test_cuts_before_1970_survive_the_bytes() -> None:
    """A level full of events that never expire above a level whose cut is a negative time loads again."""
    rows = [(n, -MAX_TIME + n // 10, 0, 1 + 40 * (n % 2)) for n in range(60)]
    sketch = Integral._of(events_of(rows), parameters("table:0=1,20s=0.4", 8))
    cuts = sketch.copies[0].cuts
    assert cuts[0] == NEVER
    assert ((cuts > NO_CUT) & (cuts < 0)).any()
    assert Integral.from_bytes(sketch.to_bytes()).to_bytes() == sketch.to_bytes()


def test_damaged_bytes_are_refused() -> None:
    """The checksum covers every byte, and a missing end is noticed."""
    data = small_sketch().to_bytes()
    for at in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises(CorruptError):
            Integral.from_bytes(bytes(damaged))
    with pytest.raises(CorruptError):
        Integral.from_bytes(data[:-1])


@given(data=st.data())
def test_wrong_contents_under_a_right_checksum_are_refused_or_harmless(data: st.DataObject) -> None:
    """Whatever the body or the parameters hold, loading gives a sketch or a `CorruptError`, never another error."""
    envelope = open_envelope(small_sketch().to_bytes())
    body, head = bytearray(envelope.body), bytearray(envelope.parameters)
    target = data.draw(st.sampled_from([body, head]))
    for _ in range(data.draw(st.integers(1, 4))):
        target[data.draw(st.integers(0, len(target) - 1))] = data.draw(st.integers(0, 255))
    sealed = seal("integral", FORMAT_VERSION, bytes(head), envelope.seed, bytes(body))
    try:
        found = load(sealed, {"integral": Integral.from_envelope})
    except CorruptError:
        return
    assert load(found.to_bytes(), {"integral": Integral.from_envelope}).to_bytes() == found.to_bytes()
    with contextlib.suppress(WaneError):
        found.answer(Question("median", found.parameters.decay, counting=found.parameters.counting))


def test_another_family_and_an_unreadable_decay_are_refused() -> None:
    """The envelope's family and the decay among the parameters are checked on loading."""
    sketch = small_sketch()
    envelope = open_envelope(sketch.to_bytes())
    with pytest.raises(CorruptError, match="family 'sample', not 'integral'"):
        Integral.from_envelope(replace(envelope, family="sample"))
    spec = OVER_AGE.encode()
    for wrong in (b"windw" + spec[5:], b"\xff" * len(spec)):
        with pytest.raises(CorruptError, match="decay of an integral sketch"):
            Integral.from_envelope(replace(envelope, parameters=envelope.parameters.replace(spec, wrong)))
    with pytest.raises(CorruptError, match="trailing"):
        Integral.from_envelope(replace(envelope, body=envelope.body + b"\0"))
