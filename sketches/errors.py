"""Exceptions named for the situation; each message names the parameter, its value and what would be valid."""


class WaneError(ValueError):
    """Anything wane refuses, in one sentence a user can act on."""


class DecayError(WaneError):
    """The text or function is not a decay: it cannot be read, or it is negative, above 1 or rising somewhere."""


class EventError(WaneError):
    """The columns given cannot be events: unequal lengths, NaN, weights below 1, times out of range."""


class QuestionError(WaneError):
    """The question cannot be asked this way: an unknown aggregate, a missing threshold, a probability above 1."""


class UnanswerableError(WaneError):
    """The question is well formed but this family or these values cannot answer it."""


class IncompatibleError(WaneError):
    """Two sketches that do not share family, parameters and seed were to be merged."""


class CorruptError(WaneError):
    """The bytes are not a sketch, or not one that arrived whole."""
