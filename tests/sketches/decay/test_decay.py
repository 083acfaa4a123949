"""Decay functions: their values against scalar formulas, their classes, their text, and what is refused."""

from __future__ import annotations

import copy
import math
import re
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sketches import Events, Question, Sample
from sketches.decay import EXAMPLES, Decay, DecayClass, parse_decay
from sketches.decay.base import Cut
from sketches.decay.functions import ExponentialDecay, NoDecay, Table, Window
from sketches.errors import DecayError, UnanswerableError
from sketches.sampling.estimation.horvitz_thompson import TOLERANCE
from sketches.sampling.integral import Integral
from sketches.units import TimeUnit
from tests.support.oracle import Oracle
from tests.support.streams import STREAMS

AGES = np.array(
    [0.0, 1e-6, 0.5, 1, 59, 60, 61, 599.5, 600, 1800, 3599, 3600, 3601, 86399, 86400, 1e6, 1e9, 1e12, 1e300]
)


def erlang(k: int, z: float) -> float:
    """Σ_{j ≤ k} e^-z z^j/j!, each term through logarithms so that none overflows."""
    if z == 0:
        return 1.0
    return math.fsum(math.exp(min(0.0, j * math.log(z) - z - math.lgamma(j + 1))) for j in range(k + 1))


def line(points: list[tuple[float, float]], x: float) -> float:
    """Linear interpolation, point by point."""
    for (a, fa), (b, fb) in pairwise(points):
        if a <= x < b:
            return fa + (fb - fa) * (x - a) / (b - a)
    return points[-1][1]


SCALAR: list[tuple[str, Callable[[float], float]]] = [
    ("none", lambda x: 1.0),
    ("window:1h", lambda x: 1.0 if x < 3600 else 0.0),
    ("exp:half_life=30m", lambda x: 0.5 ** (x / 1800)),
    ("exp:rate=0.001", lambda x: math.exp(-x / 1000)),
    ("exp:mean_life=10m", lambda x: math.exp(-x / 600)),
    ("poly:alpha=1.5,unit=1m", lambda x: (1 + x / 60) ** -1.5),
    ("chordal:1d", lambda x: max(0.0, 1 - x / 86400)),
    ("polyexp:k=0,half_life=10m", lambda x: 0.5 ** (x / 600)),
    ("polyexp:k=2,half_life=10m", lambda x: erlang(2, math.log(2) * x / 600)),
    ("polyexp:k=20,half_life=10m", lambda x: erlang(20, math.log(2) * x / 600)),
    ("superexp:beta=2,scale=1h", lambda x: 0.5 ** min(1e4, (min(x, 1e9) / 3600) ** 2)),
    ("log:unit=1m", lambda x: 1 / (1 + math.log1p(x / 60))),
    ("finite-exp:half_life=30m,floor=0.25", lambda x: 0.5 ** (x / 1800) if x <= 3600 else 0.0),
    ("table:0=1,10m=0.5,1h=0", lambda x: line([(0, 1), (600, 0.5), (3600, 0)], x)),
    ("table:0=0.9,1h=0.2", lambda x: line([(0, 0.9), (3600, 0.2)], x)),
    ("table:0=5,10m=2,1h=0.5", lambda x: line([(0, 5), (600, 2), (3600, 0.5)], x)),
    ("power:alpha=1.5,unit=1m", lambda x: (max(x, 60) / 60) ** -1.5),
    ("power:alpha=2,unit=1s,window=1h", lambda x: max(x, 1.0) ** -2 if x < 3600 else 0.0),
    ("expr:max(0, 1 - age / 1d)", lambda x: max(0.0, 1 - x / 86400)),
    ("expr:5*2^(-age/600)", lambda x: 5 * 0.5 ** (x / 600)),
    ("expr:max(age, 1)^-0.5", lambda x: max(x, 1.0) ** -0.5),
    ("expr:1000*max(age, 1)^-0.5, window = 1h", lambda x: 1000 * max(x, 1.0) ** -0.5 if x < 3600 else 0.0),
    ("expr:2 ^ -(age / 30m)", lambda x: 0.5 ** (x / 1800)),
    ("exp:half_life=30m,window=1d", lambda x: 0.5 ** (x / 1800) if x < 86400 else 0.0),
    ("poly:alpha=1.5,unit=1m,window=7d", lambda x: (1 + x / 60) ** -1.5 if x < 604800 else 0.0),
    ("chordal:1d,window=1h", lambda x: 1 - x / 86400 if x < 3600 else 0.0),
    ("table:0=1,10m=0.5,window=1h", lambda x: line([(0, 1), (600, 0.5)], x) if x < 3600 else 0.0),
    ("expr:exp(-age/10m),window=1h", lambda x: math.exp(-x / 600) if x < 3600 else 0.0),
    ("none:window=1h", lambda x: 1.0 if x < 3600 else 0.0),
]

AGED = {name: spec for name, spec in EXAMPLES.items() if name != "last"}  # the others have a weight by age

seconds = st.floats(1e-3, 1e9) | st.integers(1, 10**7).map(float)
whole = st.one_of(
    st.just("none"),
    seconds.map(lambda x: f"window:{x}"),
    seconds.map(lambda x: f"chordal:{x!r}s"),
    seconds.map(lambda x: f"log:unit={x}"),
    seconds.map(lambda x: f"exp:half_life={x}"),
    seconds.map(lambda x: f"exp:mean_life={x}"),
    st.floats(1e-9, 1e3).map(lambda x: f"exp:rate={x}"),
    st.builds("poly:alpha={},unit={}".format, st.floats(1e-3, 100), seconds),
    st.builds("power:alpha={},unit={}".format, st.floats(1e-3, 100), seconds),
    st.builds("polyexp:k={},half_life={}".format, st.integers(0, 20), seconds),
    st.builds("superexp:beta={},scale={}".format, st.floats(1, 20, exclude_min=True), seconds),
    st.builds("finite-exp:half_life={},floor={}".format, seconds, st.floats(1e-300, 0.999999)),
    st.lists(st.tuples(seconds, st.just(0.0) | st.floats(1e-9, 1)), max_size=8, unique_by=lambda x: x[0]).map(
        lambda points: (
            "table:0=1"
            + "".join(
                f",{age}={weight}"
                for age, weight in zip(
                    sorted(a for a, _ in points), sorted((w for _, w in points), reverse=True), strict=True
                )
            )
        )
    ),
    seconds.map(lambda x: f"expr:1/(1+age/{x})"),
    st.builds("expr:{}/(1+age/{})".format, st.floats(1e-9, 1e9), seconds),
    st.builds("table:0={}e3,{}=7e2".format, st.floats(1, 1e9), seconds),
)
specs = whole | st.builds("{},window={}s".format, whole, seconds)


@pytest.mark.parametrize(("spec", "scalar"), SCALAR, ids=[spec for spec, _ in SCALAR])
def test_against_scalar_formula(spec: str, scalar: Callable[[float], float]) -> None:
    """Every decay has the value of its formula, evaluated one age at a time."""
    expected = [scalar(float(x)) for x in AGES]
    np.testing.assert_allclose(parse_decay(spec)(AGES), expected, rtol=1e-11, atol=1e-290)


def test_every_decay_is_compared() -> None:
    """The list above has each name at least once, and so have the examples shown to users."""
    assert {spec.partition(":")[0] for spec, _ in SCALAR} == set(AGED)
    for name, example in EXAMPLES.items():
        assert parse_decay(example).spec.startswith(name)


@given(specs, st.lists(st.floats(-1e12, 1e308), min_size=1, max_size=30))
def test_is_a_decay_function(spec: str, ages: list[float]) -> None:
    """At any finite ages the weights lie in [0, f(0)], never rise with age, and are 0 at ages below 0."""
    ordered = np.sort(np.array(ages))
    decay = parse_decay(spec)
    weights = decay(ordered)
    assert ((weights >= 0) & (weights <= decay.at_newest)).all()
    assert (weights[ordered < 0] == 0).all()
    past = weights[ordered >= 0]
    assert (past[1:] <= past[:-1] * (1 + 1e-12) + 1e-15 * max(1, decay.at_newest)).all()


@given(specs)
def test_round_trip(spec: str) -> None:
    """The canonical text reads back to an equal decay with the same class, horizon and weights."""
    decay = parse_decay(spec)
    again = parse_decay(decay.spec)
    assert again == decay
    assert hash(again) == hash(decay)
    assert (again.spec, again.decay_class, again.horizon) == (decay.spec, decay.decay_class, decay.horizon)
    assert (again(AGES) == decay(AGES)).all()


@given(specs)
def test_horizon(spec: str) -> None:
    """From the horizon on f is exactly 0, just before it is not; only finite decays have one."""
    decay = parse_decay(spec)
    assert (decay.horizon < math.inf) == (decay.decay_class is DecayClass.FINITE)
    if decay.horizon < math.inf:
        assert decay(decay.horizon) == 0
        # a cut may come where its base has long run out of digits
        assert decay(decay.horizon * (1 - 1e-9)) > 0 or (isinstance(decay, Cut) and decay.base(decay.horizon) < 1e-300)
        assert decay.breaks()[-1] >= decay.horizon


@pytest.mark.parametrize("spec", AGED.values())
def test_events_newer_than_the_as_of_time(spec: str) -> None:
    """Ages below 0 weigh exactly 0, however far below, and age 0 weighs 1."""
    assert parse_decay(spec)([-1e300, -1e6, -60, -1, -1e-9, 0]).tolist() == [0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("spec", AGED.values())
def test_shapes(spec: str) -> None:
    """Scalars, integers, empty, strided and nested arrays are all taken, and none is changed."""
    decay = parse_decay(spec)
    ages = np.arange(24.0).reshape(4, 6)
    before = ages.copy()
    assert decay(ages[::2, ::3]).tolist() == decay(ages[::2, ::3].copy()).tolist()
    assert decay(ages.astype(np.int64)).tolist() == decay(ages).tolist()
    assert decay(5).shape == ()
    assert decay(np.array([])).shape == (0,)
    decay(ages)[:] = -1
    assert (ages == before).all()
    assert decay(np.array([np.inf])).tolist() == [1.0 if spec == "none" else 0.0]


def test_window_edge() -> None:
    """A window of W keeps 0 ≤ age < W."""
    window = parse_decay("window:1h")
    assert window([-0.0, 3599.999, np.nextafter(3600, 0), 3600, 3600.001]).tolist() == [1, 1, 1, 0, 0]
    assert window.breaks() == (3600.0,)


def test_floor_edge() -> None:
    """A finite exponential still counts at its floor, and no longer."""
    decay = parse_decay("finite-exp:half_life=10s,floor=0.25")
    assert decay(20.0) == pytest.approx(0.25)
    assert decay(20.000001) == 0


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("none", "none"),
        ("window:1h", "finite"),
        ("exp:rate=0.5", "exponential"),
        ("poly:alpha=1,unit=1s", "converging"),
        ("power:alpha=1,unit=1s", "general"),  # f(x+1)/f(x) is 1 at age 0 and falls before it rises for good
        ("chordal:1d", "finite"),
        ("polyexp:k=3,half_life=1m", "super-exponential"),
        ("superexp:beta=1.5,scale=1h", "super-exponential"),
        ("log:unit=1m", "converging"),
        ("finite-exp:half_life=1m,floor=0.1", "finite"),
        ("table:0=1,1h=1", "none"),
        ("table:0=1,10m=0.5,1h=0,2h=0", "finite"),
        ("table:0=0.5", "converging"),
        ("table:0=5", "converging"),
        ("table:0=5,1h=1", "general"),  # and not none, although it ends at 1
        ("table:0=5,1h=0", "finite"),
        ("table:0=1,1=0.5,2=0.3,3=0.25", "converging"),  # at every second the ratio grows: 0.5, 0.6, 0.83, 1
        ("table:0=1,1=0.9,2=0.5", "general"),
        ("table:0=1,10m=0.5", "general"),
        ("table:0=1,1=1e-313,1w=5e-324", "general"),  # the ratio itself underflows
        ("expr:1", "none"),
        ("expr:0.5", "converging"),
        ("expr:2", "converging"),
        ("expr:5*(age < 1h)", "finite"),
        ("expr:5*exp(-age/10m)", "exponential"),
        ("expr:1e30*exp(-age/10)", "exponential"),  # runs out of digits at 1e-294, which is not its end
        ("expr:1e30/(1 + age/60)", "converging"),
        ("expr:1e9*exp(-(age/1h)^2)", "super-exponential"),
        ("expr:max(age, 1)^-0.5", "general"),
        ("expr:age < 1h", "finite"),
        ("expr:max(0, 1 - age/1d)", "finite"),
        ("expr:max(0, exp(-age/10m) - 0.01)", "finite"),
        ("expr:exp(-age/10m)", "exponential"),
        ("expr:0.5 ^ (age/3)", "exponential"),
        ("expr:exp(-age * 1000)", "exponential"),
        ("expr:exp(-age / 1e9)", "exponential"),
        ("expr:1 / exp(age/1m)", "exponential"),
        ("expr:1 / (1 + age/60)", "converging"),
        ("expr:(1 + age/1h) ^ -1.5", "converging"),
        ("expr:1 / (1 + ln(1 + age/60))", "converging"),
        ("expr:exp(-sqrt(age))", "converging"),
        ("expr:exp(-(age/1m)^0.99)", "converging"),
        ("expr:1/(1+(age/60)^2)", "general"),
        ("expr:0.5*exp(-age/1h)+0.5*exp(-age/1d)", "super-exponential"),  # converging too; it ends as exponential does
        ("expr:0.9*exp(-age/1d)+0.1*exp(-age/30d)", "super-exponential"),
        ("expr:exp(-age/1h)/(1+age)", "super-exponential"),
        ("expr:0.5*exp(-age/1h)+0.5/(1+age/1h)", "converging"),
        ("expr:max(0.2, exp(-age/10m))", "converging"),
        ("expr:exp(-(age/1h)^2)", "super-exponential"),
        ("expr:2^-((age/1m)^1.001)", "super-exponential"),
        ("expr:exp(-age) * (1 + age)", "super-exponential"),
        ("expr:min(1, 2*exp(-age/10m))", "super-exponential"),
        ("expr:0.5 + 0.5*(age < 60)", "general"),
        ("expr:max(0, 1 - age/1e11)", "general"),  # reaches 0 only beyond the grid
        ("expr:max(0, 1 - age/1.5e10)", "general"),
        ("expr:(exp(-age/60) + (age < 1h)) / 2", "general"),
    ],
)
def test_class(spec: str, expected: str) -> None:
    """Each decay knows its class; tables and formulas claim one only if it can be shown."""
    assert parse_decay(spec).decay_class == expected


@given(st.lists(st.floats(0.05, 1), min_size=1, max_size=6), st.lists(st.integers(1, 3), min_size=6, max_size=6))
def test_table_claims_converging_only_if_the_ratio_never_falls(weights: list[float], gaps: list[int]) -> None:
    """Against brute force over a fine grid of ages: a table said to converge has no falling f(x+1)/f(x)."""
    ages = np.cumsum([0, *gaps])[: len(weights) + 1] * 0.5
    table = Table(tuple(zip(ages.tolist(), [1.0, *sorted(weights, reverse=True)], strict=True)))
    x = np.arange(0, float(ages[-1]) + 1, 1 / 256)
    ratios = table(x + 1) / table(x)
    fall = float(np.max(np.maximum.accumulate(ratios) - ratios))
    if fall > 1e-10:
        assert table.decay_class is DecayClass.GENERAL
    if fall < 1e-13:
        assert table.decay_class is not DecayClass.GENERAL


def test_expression_horizon_is_sharp() -> None:
    """The horizon of a finite formula is found to the last digit, and underflow is not mistaken for it."""
    assert parse_decay("expr:age < 12345.678").horizon == 12345.678
    assert parse_decay("expr:max(0, 1 - age/86400)").horizon == pytest.approx(86400, rel=1e-12)
    assert parse_decay("expr:exp(-age)").horizon == math.inf
    assert parse_decay("expr:age < 1h").breaks() == ()


REFUSED = [
    ("expr:(age<12)*0.31 + (age>=12)*0.44", "at age 12.0 s it rises from 0.31 to 0.44"),
    ("expr:0.9 - 0.1*(age < 98765.4)", "at age 98765.4 s it rises from 0.8 to 0.9"),
    ("expr:min(1, abs(age-1000)/1000)", "at age 1000.0 s it rises from 0 to 1"),
    ("expr:0.5 + age*1e-12", "s it rises from 0.5 to 0.51"),
    ("expr:age", "at age 0.0 s it rises from 0"),
    ("expr:exp(age)", "at age 0.0 s it rises from 1 to inf"),
    ("expr:1 - age/100", "at age 100.0 s it turns negative"),
    ("expr:exp(-age/600) - 0.001", "at age 4144.65 s it turns negative"),
    ("expr:1e31", "at age 0.0 s it is above 1e+30 (1e+31)"),
    ("expr:1e-31", "expr:1e-31 starts at 1e-31; it must start at 1e-30 or above"),
    ("expr:1/age", "at age 0.0 s it is infinite"),
    ("expr:age^-0.5", "at age 0.0 s it is infinite"),
    ("expr:-ln(age)", "at age 0.0 s it is infinite"),
    ("expr:5 - age/100", "at age 500.0 s it turns negative"),
    ("expr:5*exp(-age/600) + (age > 100)", "at age 100.0 s it rises from 4.23241 to 5.23241"),
    ("expr:5 + 1/(100 - age)*(age != 100)", "the character '!'"),
    ("expr:5 + max(0, 1/(100 - age))", "s it rises from 5.01 to inf"),
    ("expr:1e20*(1 + 1e20*(age > 60))", "at age 60.0 s it rises from 1e+20 to 1e+40"),
    ("expr:sqrt(1 - age/50)", "at age 50.0 s it is not a number"),
    ("expr:0/0", "at age 0.0 s it is not a number"),
    ("expr:9**9**9**9", "at age 0.0 s it is infinite"),
    ("expr:(age+1)^2 * 2^-age / 2", "at age 0.0 s it rises from 0.5 to"),  # paper B's polyexponential decay, k = 2
    ("expr:0", "it must start above 0"),
    ("table:0=1,10m=0.5,1h=0.7", "at age 600.0 s it rises from 0.5 to 0.7"),
    ("table:0=1.5,1h=2", "at age 0.0 s it rises from 1.5 to 2"),
    ("table:0=1e31,1h=0", "at age 0.0 s it is above 1e+30 (1e+31)"),
    ("table:0=1e-31,1h=0", "it must start at 1e-30 or above"),
    ("table:0=0", "it must start above 0"),
]


@pytest.mark.parametrize(("spec", "message"), REFUSED, ids=[spec for spec, _ in REFUSED])
def test_refused_with_the_age(spec: str, message: str) -> None:
    """What is not a decay function is refused with the age where it fails."""
    with pytest.raises(DecayError, match=re.escape(message)):
        parse_decay(spec)


@given(st.floats(0.01, 1e9), st.floats(0.01, 0.49), st.floats(0.5, 0.99))
def test_any_jump_up_is_found(age: float, low: float, high: float) -> None:
    """Wherever a formula jumps up within the grid, it is refused with that age."""
    with pytest.raises(DecayError) as caught:
        parse_decay(f"expr:{low!r} + (age >= {age!r})*({high!r} - {low!r})")
    found = re.search(r"at age (\S+) s it rises", str(caught.value))
    assert found is not None
    assert float(found[1]) == pytest.approx(age, rel=1e-5)


NARROW = [  # what no age of the grid shows
    ("1 + (age > 100.25) * (age < 100.26)", "at age 100.25 s it rises from 1 to 2"),
    ("5 + 2*(age > 100.25)*(age < 100.26)", "at age 100.25 s it rises from 5 to 7"),
    ("0.5*exp(-age/1h) + 0.4*(age > 100.25)*(age < 100.26) + (age < 9)", "at age 100.25 s it rises"),
    ("exp(-age/1h) + 0.02*exp(-((age-1000.5)/1e-5)^2)", "s it rises from 0.7"),
    ("exp(-age/1h) + 0.3*max(0, 1 - abs(age-70000.3)*1e6)", "s it rises from"),
    ("1 - 2*(age > 1e11)*(age < 1e12)", "at age 100000000000.0 s it turns negative (-1)"),
    ("1 + 0*ln(abs(age - 100.25))", "s it is not a number"),
    ("1 + 0/(age - 1234567.125)", "at age 1234570.0 s it is not a number"),
    ("1 + 0*exp(1000*(age > 100.25)*(age < 100.26))", "at age 100.25 s it is not a number"),
    ("1e-20*(exp(-age/1h) + 0.2*(age > 500))", "at age 500.0 s it rises"),
]


@pytest.mark.parametrize(("text", "message"), NARROW, ids=[text for text, _ in NARROW])
def test_what_no_grid_shows_is_refused(text: str, message: str) -> None:
    """However narrow a bump, a jump or a hole is, the formula is refused with its age."""
    with pytest.raises(DecayError, match=re.escape(message)):
        parse_decay(f"expr:{text}")


@settings(max_examples=8)
@given(st.floats(0.01, 1e6), st.floats(1e-9, 1e-3), st.floats(0.01, 0.9))
def test_any_narrow_bump_is_refused(age: float, width: float, height: float) -> None:
    """A smooth bump on a decay, wherever it is, too narrow for any grid of ages and below f(0)."""
    width = max(width * age, 1e-9)
    with pytest.raises(DecayError, match=r"rises|may rise"):
        parse_decay(f"expr:(age < {age / 2!r}) + exp(-age/1e9)/9 + {height / 9!r}*exp(-((age-{age!r})/{width!r})^2)")


SHOWN = [
    "1/(1 + exp((age - 1h)/5m))",
    "1 - 1/(1 + exp(-(age - 3600)/300))",
    "0.5*exp(-age/1m) + 0.5*exp(-age/1h)",
    "2*exp(-age) - exp(-2*age)",
    "(1 - (age/1h)^2)^2 * (age < 1h)",
    "abs(1 - age/1h) * (age < 1h)",
    "sqrt(max(0, 1 - age/1h))",
    "60/(60 + age) * exp(-age/1d)",
    "1/(1 + (age/1h)^2)",
    "(age < 100) + 0.25*(age >= 100)*(age < 2000)",
    "min(1, 60/max(age, 1e-9))",
    "(1 + age/1d + (age/1d)^2/2) * exp(-age/1d)",
]


@pytest.mark.parametrize("text", SHOWN)
def test_what_falls_is_shown_to_fall(text: str) -> None:
    """Sums, products, steps, logistic curves and corners are proved, at every age that a duration can name."""
    weights = parse_decay(f"expr:{text}")(np.geomspace(1e-6, 1e12, 10_001))
    assert (np.diff(weights) <= 1e-12 * weights[:-1] + 1e-15).all()


@pytest.mark.parametrize("text", ["1 - age/(age + 60)", "(1+age+age^2/2+age^3/6+age^4/24)*exp(-age)"])
def test_what_cannot_be_shown_is_refused_as_such(text: str) -> None:
    """These fall, but not so that intervals show it: the message says so, with the ages, and calls nothing wrong."""
    with pytest.raises(DecayError, match=r"cannot be shown to be a decay function: between the ages \S+ s and \S+ s"):
        parse_decay(f"expr:{text}")


def test_what_rounding_drowns_is_refused() -> None:
    """(1e8 + x)² − 1e16 falls with x, but computed in floats it goes up and down by parts in 1e8."""
    with pytest.raises(DecayError, match="cannot be computed well enough: at age 0 s"):
        parse_decay("expr:(1e8 + exp(-age))^2 - 1e16")


def test_far_ages_are_refused_where_nothing_is_shown() -> None:
    """Beyond the longest duration a formula may do what it likes, until it is asked there."""
    bump = parse_decay("expr:exp(-age/1e13) - 0.5*(age > 1e13)*(age < 2e13)*exp(-age/1e13)")
    assert bump([0, 1e12]).tolist() == pytest.approx([1, math.exp(-0.1)])
    with pytest.raises(DecayError, match=r"cannot be shown to be a decay function as far as age 30000000000000\.0 s"):
        bump(3e13)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "windw:1h",
            "unknown decay 'windw'; did you mean window? Write one of: none  window:1h  last:10000",
        ),
        ("", "unknown decay ''. Write one of: none"),
        ("\x00é", r"unknown decay '\x00\xe9'"),
        ("window", "window takes one duration, not ''; write it like window:1h"),
        ("window:width=1h", "window takes one duration, not 'width=1h'"),
        ("window:0", "window: horizon is 0; it must be a duration such as"),
        ("window:1y", "window: horizon is '1y'; it must be a duration such as"),
        ("none:1", "none takes no parameters, not '1'"),
        ("last", "last takes one number, not ''; write it like last:10000"),
        ("last:0", "last: count is 0; it must be a whole number of events from 1 to 1e15"),
        ("last:1.5", "last: count is 1.5; it must be a whole number of events"),
        ("last:1h", "last: count is '1h'; it must be a whole number of events"),
        ("last:10,window=1h", "last:10 is a window by itself"),
        ("power:alpha=1", "power: unit missing; write it like power:alpha=1.5,unit=1s"),
        ("exp", "exp needs exactly one of half_life, rate, mean_life; got none"),
        ("exp:rate=1,half_life=2", "exactly one of half_life, rate, mean_life; got rate and half_life"),
        ("exp:half=3", "exp has no parameter 'half'; it takes half_life, rate, mean_life"),
        ("exp:rate=1h", "exp: rate is '1h'; it must be a number per second"),
        ("exp:rate=nan", "exp: rate is 'nan'"),
        ("poly:alpha=1", "poly: unit missing; write it like poly:alpha=1.5,unit=1m"),
        ("poly:alpha=1,alpha=2,unit=1m", "poly: alpha is given twice"),
        ("poly:alpha=0,unit=1m", "poly: alpha is 0; it must be a number above 0"),
        ("poly:1,1m", "poly: '1' cannot be read; write it like poly:alpha=1.5,unit=1m"),
        ("polyexp:k=2.5,half_life=1m", "polyexp: k is 2.5; it must be a whole number from 0 to 20"),
        ("polyexp:k=21,half_life=1m", "polyexp: k is 21"),
        ("superexp:beta=1,scale=1h", "superexp: beta is 1; it must be a number above 1"),
        ("finite-exp:half_life=1m,floor=1", "finite-exp: floor is 1; it must be a number above 0 and below 1"),
        ("table:", "table: '' cannot be read; write it like table:0=1,10m=0.5,1h=0"),
        ("table:10m=1,1h=0", "table: ages must begin at 0 and rise"),
        ("table:0=1,1h=0.5,1h=0", "table: ages must begin at 0 and rise"),
        ("table:0=1,1h=-0.5", "table: at 1h is '-0.5'; it must be a number from 0 to 1e+30"),
        ("expr:foo(age)", "the name 'foo' at position 1 is unknown"),
        ("exp:half_life=1m,window=0", "window is 0; it must be a duration such as"),
        ("exp:half_life=1m,window=", "window is ''; it must be a duration such as"),
        ("chordal:1d,window=1y", "window is '1y'; it must be a duration such as"),
        ("exp:window=1h", "exp needs exactly one of half_life, rate, mean_life; got none"),
        ("exp:half_life=1m,window=1h,window=2h", "window is given twice, after 'exp:half_life=1m,window=1h' as well"),
        ("none:window=1h,window=2h", "window is given twice"),
        ("poly:window=1h,alpha=1,unit=1m", "window is '1h,alpha=1,unit=1m'; it must come last, like exp:"),
        ("windw:1h,window=2h", "unknown decay 'windw'; did you mean window?"),
        ("cut:1h", "unknown decay 'cut'"),
        ("cut:window=1h", "unknown decay 'cut'"),
        ("expr:1 - age/100,window=1m", "at age 100.0 s it turns negative"),
        ("none" + " " * 600, "the decay has 604 characters; at most 600 are allowed"),
    ],
)
def test_error_texts(text: str, message: str) -> None:
    """What cannot be read is refused with what was given and what would be valid."""
    with pytest.raises(DecayError) as caught:
        parse_decay(text)
    assert message in str(caught.value)


@given(
    st.text(max_size=80)
    | st.sampled_from(list(EXAMPLES)).flatmap(lambda x: st.text(max_size=40).map(f"{x}:{{}}".format))
)
def test_any_text(text: str) -> None:
    """Any text is a decay or a DecayError, nothing else."""
    with suppress(DecayError):
        assert isinstance(parse_decay(text), Decay)


def test_blanks_do_not_matter() -> None:
    """Blanks around names, signs and values are ignored."""
    assert parse_decay("  poly : alpha = 1.5 , unit = 1 m ") == parse_decay("poly:unit=60,alpha=1.5")
    assert parse_decay("table: 0 = 1 , 1h = 0").spec == "table:0=1,1h=0"


def test_equality_is_by_spec() -> None:
    """Decays that say the same are equal and hash alike; they compare with nothing else, and copy."""
    assert parse_decay("window:60m") == Window(3600.0)
    assert len({parse_decay("window:60m"), parse_decay("window:1h"), parse_decay("chordal:1h")}) == 2
    assert Window(3600.0) != "window:1h"
    assert repr(Window(3600.0)) == "parse_decay('window:1h')"
    for example in AGED.values():
        decay = parse_decay(example)
        decay(AGES)
        assert copy.deepcopy(decay) == decay


def test_immutable() -> None:
    """A decay cannot be changed after it was checked."""
    for example in EXAMPLES.values():
        for name in ("horizon", "decay_class", "half_life"):
            with pytest.raises(AttributeError):
                setattr(parse_decay(example), name, 1.0)


def test_constructors_check_too() -> None:
    """A decay built in Python is held to the same limits as one that is read."""
    for wrong in (0.0, -1.0, math.nan, math.inf, 1e13):
        with pytest.raises(DecayError):
            Window(wrong)
        with pytest.raises(DecayError):
            ExponentialDecay(wrong)
    for points in (
        (),
        ((1.0, 1.0),),
        ((0.0, math.nan),),
        ((0.0, 1.0), (math.nan, 0.0)),
        ((0.0, 1.0), (math.inf, 0.0)),
        ((0.0, 0.5), (1.0, 0.6)),
    ):
        with pytest.raises(DecayError):
            Table(points)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("none:window=1h", "window:1h"),
        (" none , window = 60 m ", "window:1h"),
        ("window:2h,window=1h", "window:1h"),
        ("window:1h,window=2h", "window:1h"),
        ("chordal:1d,window=1d", "chordal:1d"),
        ("chordal:1d,window=2d", "chordal:1d"),
        ("chordal:1d,window=86399s", "chordal:1d,window=86399s"),
        ("table:0=1,10m=0.5,1h=0,window=1h", "table:0=1,10m=0.5,1h=0"),
        ("expr:age < 1h,window=1h", "expr:age<1h"),
        ("expr:max(0, 1 - age/1d), window=90m", "expr:max(0,1-age/1d),window=90m"),
        ("exp:mean_life=10m , window = 1500ms", "exp:half_life=415.88830833596717s,window=1500ms"),
    ],
)
def test_a_window_in_its_canonical_text(text: str, canonical: str) -> None:
    """A window that says nothing new goes, one that says all stays alone, and the rest reads back to itself."""
    assert parse_decay(text).spec == canonical
    assert parse_decay(canonical).spec == canonical


@given(whole, seconds)
def test_a_window_keeps_the_decay_within_it(spec: str, window: float) -> None:
    """Below the window the weights are those of the decay, to the last bit; from there on 0."""
    base = parse_decay(spec)
    cut = base.cut(window)
    ages = np.append(AGES, [0.3 * window, np.nextafter(window, 0), window, np.nextafter(window, np.inf), 3.0 * window])
    assert (cut(ages) == base(ages) * (ages < window)).all()
    assert cut == parse_decay(f"{spec},window={window!r}")
    assert (cut.horizon, cut.decay_class) == (min(base.horizon, window), DecayClass.FINITE)


def test_a_cut_bends_where_its_base_does() -> None:
    """The corners of the decay below the window, then the window; those beyond it are gone."""
    table = parse_decay("table:0=1,10m=0.5,30m=0.2,1h=0")
    assert table.cut(2000.0).breaks() == (600.0, 1800.0, 2000.0)
    assert table.cut(1800.0).breaks() == (600.0, 1800.0)
    assert parse_decay("exp:half_life=1m,window=1h").breaks() == (3600.0,)
    assert parse_decay("expr:age<1h,window=1m").breaks() == (60.0,)


def test_cutting_again_takes_the_shorter_window() -> None:
    """In Python a cut may be cut, in any order; what has a shorter name gets no other."""
    base = parse_decay("exp:half_life=30m")
    assert base.cut(3600.0).cut(60.0) == base.cut(60.0) == base.cut(60.0).cut(3600.0)
    assert NoDecay().cut(60.0) == Window(3600.0).cut(60.0) == Window(60.0)
    for wrong in (0.0, -1.0, math.nan, math.inf, 1e13):
        for decay in (base, Window(60.0), base.cut(60.0)):
            with pytest.raises(DecayError, match=r"window is .*; it must be a duration"):
                decay.cut(wrong)
    for inner in (NoDecay(), Window(3600.0), base.cut(3600.0), parse_decay("chordal:1m")):
        with pytest.raises(DecayError, match="has a shorter way to say it"):
            Cut(inner, 60.0)


def test_a_cut_is_no_family() -> None:
    """It is not shown among the decays, and no name leads to it."""
    assert not any("window=" in example for example in EXAMPLES.values())
    assert not any(isinstance(parse_decay(example), Cut) for example in EXAMPLES.values())


def test_a_cut_is_checked_no_further_than_it_reaches() -> None:
    """What a formula does beyond the window is never asked."""
    late = parse_decay("expr:1 - 2 * (age > 1e13) * (age < 1e14)")
    with pytest.raises(DecayError, match="turns negative"):
        late(2e13)
    assert late.cut(60.0)([1.0, 2e13]).tolist() == [1.0, 0.0]


def test_a_cut_that_could_not_be_read_back_is_refused() -> None:
    """The limit on the text holds for decay and window together, read or made."""
    table = parse_decay("table:0=1" + "".join(f",{i}.1234567s=0.{99 - i}" for i in range(1, 36)))
    assert 580 < len(table.spec) <= 600
    for make in (lambda: table.cut(30.1234567), lambda: parse_decay(f"{table.spec},window=9.")):
        with pytest.raises(DecayError, match=r"the (table|decay) has 6\d\d characters.*; at most 600 are allowed"):
            make()


CUTS = (
    "exp:half_life=10m,window=25m",
    "poly:alpha=1.5,unit=1m,window=45m",
    "chordal:40m,window=7m",
    "table:0=1,10m=0.5,window=30m",
    "table:0=1,10m=0.5,1h=0,window=30m",
    "expr:exp(-age/10m),window=17m",
    "superexp:beta=2,scale=20m,window=15m",
    "finite-exp:half_life=10m,floor=0.05,window=20m",
)


@pytest.mark.slow
@pytest.mark.parametrize("spec", CUTS)
@pytest.mark.parametrize("unit", [TimeUnit(1, 1), TimeUnit(1, 4)], ids=["1s", "250ms"])
def test_answers_under_a_cut_are_exact_where_nothing_was_dropped(spec: str, unit: TimeUnit) -> None:
    """A sample that kept every event answers as brute force does, at one time or 200, before and after the data."""
    stream = STREAMS["heavy-weights"](1500, 3)
    sketch = Sample.build(Events.of(stream.ids, stream.t, stream.v, stream.w), epsilon=0.01, unit=unit)
    assert sketch.kept == len(stream)
    oracle = Oracle(stream, unit.numerator / unit.denominator)
    times = np.linspace(stream.t.min() - 5, stream.t.max() + 6000, 200).astype(np.int64)
    for aggregate in ("sum", "count", "mean", "median", "correlated-sum"):
        tau = float(np.quantile(stream.v, 0.7)) if aggregate == "correlated-sum" else None
        question = Question(aggregate, spec, tau=tau)
        some = times[::9]
        exact = np.array([oracle.answer(question.at(int(time))) for time in some])
        single = [sketch.answer(question.at(int(time))) for time in some]
        assert np.allclose([one.value for one in single], exact, 1e-12, equal_nan=True), aggregate
        series = sketch.series(question, times)
        assert (series.used[::9] == [one.used for one in single]).all()
        if aggregate == "median":  # reads the decay off a table, so the share below may be off by that table's error
            for time, median in zip(some.tolist(), series.value[::9].tolist(), strict=True):
                if not math.isnan(median):
                    reached = oracle.answer(Question("rank", spec, as_of=time, value=median))
                    short = oracle.answer(Question("rank", spec, as_of=time, value=median - 1))
                    assert short - 2 * TOLERANCE <= 0.5 <= reached + 2 * TOLERANCE
        else:
            assert np.allclose(series.value[::9], exact, 2 * TOLERANCE, equal_nan=True), aggregate


def test_a_cut_has_the_guarantee_of_a_finite_decay() -> None:
    """Converging decays allow a relative error for τ-sums, cut ones do not, and the answer says so."""
    sketch = Sample.build(Events.of(np.arange(100_000), np.arange(100_000)), epsilon=0.2, detail=1)
    told = [
        sketch.answer(Question("correlated-sum", spec, tau=0)).guarantee
        for spec in ("poly:alpha=1,unit=1h", "poly:alpha=1,unit=1h,window=20h")
    ]
    assert ["no small sketch" in text for text in told] == [False, True]
    assert "under finite decay" in told[1]


def test_the_integral_family_is_built_for_a_cut() -> None:
    """Its bytes name the cut, it answers under that decay as brute force does, and refuses the one it was cut from."""
    sketch = Integral.build(
        Events.of([1, 2, 3], [0, 50, 100], weights=[8, 8, 8]), decay="exp:half_life=50s,window=100s", counting="weight"
    )
    again = Integral.from_bytes(sketch.to_bytes())
    assert again.parameters.decay.spec == "exp:half_life=50s,window=100s"
    assert again.answer(Question("sum", "exp:half_life=50s,window=100s")).value == 12
    with pytest.raises(UnanswerableError, match="built for the decay exp:half_life=50s,window=100s; the question asks"):
        again.answer(Question("sum", "exp:half_life=50s"))


FADING: list[tuple[str, Callable[[float], float]]] = [
    ("none", lambda share: math.inf),
    ("window:1h", lambda share: 3600),
    ("exp:half_life=30m", lambda share: 1800 * -math.log2(share)),
    ("poly:alpha=1.5,unit=1m", lambda share: 60 * (share ** (-1 / 1.5) - 1)),
    ("poly:alpha=0.01,unit=1m", lambda share: 60 * (share**-100.0 - 1)),
    ("power:alpha=2,unit=1m", lambda share: 60 * share**-0.5),
    ("table:0=8,10m=4,1h=4,2h=0", lambda share: 1200 * (1 - share) if share >= 0.5 else 7200 * (1 - share)),
    ("expr:5*2^(-age/600)", lambda share: 600 * -math.log2(share)),
    ("chordal:1d", lambda share: 86400 * (1 - share)),
    ("polyexp:k=0,half_life=10m", lambda share: 600 * -math.log2(share)),
    ("superexp:beta=2,scale=1h", lambda share: 3600 * math.sqrt(-math.log2(share))),
    ("log:unit=1m", lambda share: 60 * math.expm1(1 / share - 1)),
    ("finite-exp:half_life=30m,floor=0.25", lambda share: 1800 * -math.log2(share) if share >= 0.25 else 3600),
    ("table:0=0.8,10m=0.4,1h=0.4,2h=0", lambda share: 1200 * (1 - share) if share >= 0.5 else 7200 * (1 - share)),
    ("table:0=1,1h=0.6", lambda share: 9000 * (1 - share) if share >= 0.6 else math.inf),
    ("expr:1/(1+age/60)", lambda share: 60 * (1 / share - 1)),
    ("expr:0.9*(age < 12345.678)", lambda share: 12345.678),
    ("expr:0.5", lambda share: math.inf),
    ("exp:half_life=30m,window=40m", lambda share: min(1800 * -math.log2(share), 2400)),
    ("table:0=1,1h=0.6,window=2h", lambda share: 9000 * (1 - share) if share >= 0.6 else 7200),
    ("expr:0.5,window=1h", lambda share: 3600),
]


@pytest.mark.parametrize(("spec", "age"), FADING, ids=[spec for spec, _ in FADING])
def test_when_a_share_is_left(spec: str, age: Callable[[float], float]) -> None:
    """The age at which a decay has fallen to a share of its start, against its formula turned round."""
    decay = parse_decay(spec)
    for share in (0.99, 0.7, 0.5, 0.4, 0.1, 0.01):
        assert decay.fades_by(share) == pytest.approx(age(share), rel=1e-9), share
    assert decay.half_age == decay.fades_by(0.5)


def test_every_decay_fades_in_the_list_above() -> None:
    """Each name at least once."""
    assert {spec.partition(":")[0] for spec, _ in FADING} == set(AGED)


@given(specs, st.floats(1e-6, 1))
def test_the_age_of_a_share_is_the_least(spec: str, share: float) -> None:
    """There f is at most that share of its start, and just before it is more; an infinite age means always."""
    decay = parse_decay(spec)
    most, age = share * decay(0.0), decay.fades_by(share)
    if math.isinf(age):
        assert (decay(AGES[AGES <= 1e12]) > most).all()
    else:
        assert decay(age) <= most
        assert age == 0 or age > 1e300 or decay(age * (1 - 1e-9)) >= most * (1 - 1e-12)


def test_shares_at_the_ends() -> None:
    """All of it is left at once; none of it at the horizon, or where the digits end; other shares are refused."""
    assert parse_decay("log:unit=1m").fades_by(1) == 0
    assert parse_decay("chordal:1h,window=20m").fades_by(0) == 1200
    assert parse_decay("exp:half_life=1s").fades_by(0) == pytest.approx(1075, abs=1)
    assert parse_decay("expr:(1+age)^2/(1+age)^2").half_age == math.inf  # not a number from 1e154 s on
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(DecayError, match=r"share is .*; it must be a number from 0 to 1"):
            parse_decay("exp:half_life=1s").fades_by(wrong)


@pytest.mark.parametrize(
    ("spec", "factor"),
    [
        ("exp:half_life=30m", 1.0),
        ("power:alpha=1.5,unit=1s", 1.0),
        ("table:0=5,1h=0", 5.0),
        ("table:0=5,1h=0,window=10m", 5.0),
        ("expr:5*2^(-age/600)", 5.0),
        ("expr:0.25", 0.25),
        ("expr:max(age,0.01)^-0.5", 10.0),
        ("last:100", 1.0),
    ],
)
def test_a_decay_says_its_factor(spec: str, factor: float) -> None:
    """What an event at the as-of time weighs: sums and counts are so many times those of a decay that begins at 1."""
    assert parse_decay(spec).at_newest == pytest.approx(factor, rel=1e-12)


def test_a_factor_scales_every_weight_and_changes_neither_class_nor_end() -> None:
    """Five times a formula is five times its weights; ages at which a share is left are the same."""
    for text in ("2^(-age/600)", "max(0, 1 - age/1h)", "1/(1 + age/60)^2", "exp(-(age/1h)^2)", "max(age,1)^-1.5"):
        plain, scaled = parse_decay(f"expr:{text}"), parse_decay(f"expr:5*({text})")
        np.testing.assert_allclose(scaled(AGES), 5 * plain(AGES), rtol=1e-12)
        assert scaled.decay_class == plain.decay_class
        assert scaled.horizon == pytest.approx(plain.horizon)
        assert scaled.half_age == pytest.approx(plain.half_age)


def test_the_newest_events_have_no_weight_by_age() -> None:
    """A number of events begins where the events say; asked by age it is refused by name."""
    last = parse_decay("last: 1e4 ")
    assert (last.spec, last.decay_class, last.horizon) == ("last:10000", DecayClass.FINITE, math.inf)
    assert parse_decay(last.spec) == last
    with pytest.raises(DecayError, match="last:10000 is a number of events"):
        last([0, 1])


def test_rate() -> None:
    """An exponential decay gives its rate per second, whichever parameter it was written with."""
    for text in ("exp:rate=0.01", "exp:mean_life=100s", f"exp:half_life={100 * math.log(2)!r}"):
        decay = parse_decay(text)
        assert isinstance(decay, ExponentialDecay)
        assert decay.rate == pytest.approx(0.01, rel=1e-14)


def test_long_tables_still_round_trip() -> None:
    """A table whose canonical text would be too long to read back is refused at once."""
    text = "table:0=1" + "".join(f",{i}.1234567s=.{99 - i}" for i in range(1, 34))
    assert len(text) < 600
    assert parse_decay(parse_decay(text).spec) == parse_decay(text)
    with pytest.raises(DecayError, match="characters written out"):
        parse_decay("table:0=1" + "".join(f",{i}e-7w=.{99 - i}" for i in range(1, 53)))


def test_hostile_formulas_end_quickly() -> None:
    """The slowest formulas that the limits allow are checked in bounded time."""
    for text in ("pow(" * 32 + "age" + ",age)" * 32, "1" + "/(1+age^1.7" * 30 + ")" * 30, "2" + "^age" * 32):
        start = time.process_time()
        with suppress(DecayError):
            parse_decay(f"expr:{text}")
        assert time.process_time() - start < 3
