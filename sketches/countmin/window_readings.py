"""The counters of `ecm` sketches over a window as plain numbers, for sites that watch their sum (paper E §6.2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sketches.arrays import Words
from sketches.countmin.askable_counters import AskableCounters
from sketches.countmin.counter_places import clamped
from sketches.countmin.ecm_parameters import EcmParameters
from sketches.encoding.value_codes import codes_of
from sketches.errors import IncompatibleError, QuestionError, UnanswerableError
from sketches.events import Kind
from sketches.hashing import hash_one
from sketches.monitoring.readings import Readings, Shape
from sketches.question import Question


def shape_of(parameters: EcmParameters) -> Shape:
    """Refuses counters that are samples, or that know no times."""
    if parameters.keeping == "rw":
        raise UnanswerableError("randomised waves are samples and cannot be watched; keeping = 'eh' or 'dw' can")
    if parameters.basis != "time":
        raise UnanswerableError("windows of the last arrivals cannot be added up over sites; basis = 'time' can")
    return Shape(parameters.rows, parameters.width, parameters.excess(1))


def readings_of(parameters: EcmParameters, counters: AskableCounters, window: Question, value: Any = None) -> Readings:
    """What all counters of values hold, or those of one value, as of the question's moment under its decay.

    Counters that were built with other parameters are refused: they would be added up with those of other sites.
    """
    shape = shape_of(parameters)
    if counters.parameters != parameters:
        raise IncompatibleError(
            f"the stored sketches have {counters.parameters}, but the settings say {parameters}; all sites must agree"
        )
    if window.as_of is None:
        raise QuestionError("as_of is missing: a window that is watched ends at a given time")
    if value is None:
        columns, cells = shape.width, np.arange(shape.rows * shape.width)
    else:
        columns, cells = 1, counters.cells_of(_code(counters, value), 0).reshape(-1)
    cells = np.append(cells, len(counters.bounds) - 2)  # the last one counts every arrival
    middle, lower, upper = counters.contents_of(window, np.array([window.as_of], np.int64), cells)
    return Readings.of((middle[0], lower[0], upper[0]), (shape.rows, columns))


def _code(counters: AskableCounters, value: Any) -> Words:
    if counters.kind is Kind.KEY or len(counters.size) == 0:
        return np.array([hash_one(str(value))], np.uint64)
    if isinstance(value, str):
        raise UnanswerableError(f"value is {value!r}, but this stream's values are numbers")
    if counters.kind is Kind.FLOAT:
        words: Words = codes_of(np.array([float(value)]) + 0.0, counters.kind)
        return words
    if value != int(value):
        raise UnanswerableError(f"value is {value!r}, but this stream's values are whole numbers")
    codes: Words = clamped(codes_of(np.array([int(value)], np.int64), counters.kind), counters.parameters.bits)
    return codes
