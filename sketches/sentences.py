"""What a question asks, in words: said beside every answer, so that nobody takes it for the answer to another one."""

from __future__ import annotations

from typing import Final

from sketches.decay.functions import LastEvents
from sketches.question import Question
from sketches.records import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """What a stream calls its value and its weight; empty where it has no name for it."""

    value: str = ""
    weight: str = ""
    alone: bool = False  # the name stands for itself, where a reader sees it among its kind

    def of(self, column: str) -> str:
        """The column in words, with its name.

        >>> Names(value="duration_s").of("value"), Names().of("weight"), Names().of("status")
        ('the value (duration_s)', 'the weight', 'status')
        >>> Names(value="duration_s", alone=True).of("value")
        'duration_s'
        """
        if column not in ("value", "weight"):
            return column
        name = getattr(self, column)
        if self.alone and name:
            return str(name)
        return f"the {column} ({name})" if name and name != column else f"the {column}"


NO_NAMES: Final = Names()


def sentence(question: Question, names: Names = NO_NAMES, *, weighted: bool = True, counted: str = "events") -> str:
    """What is asked, without the decay and the as-of time.

    `weighted` says whether events have weights of their own; `counted` is what is counted, events or rows.

    >>> sentence(Question("mean", high=60), Names(weight="loss"))
    'the mean of the weight (loss), over events where the value is at most 60'
    >>> sentence(Question("median"))
    'the median of the value, each event counted once'
    """
    text = _subject(question, names, counted) + (" per second" if question.per_second else "")
    if not question.sums or question.of_value or question.threshold is not None:
        text += _counting(question, weighted, counted)
    if not weighted and question.sums and not question.of_value:
        text += f", where all {counted} weigh 1"
    if isinstance(question.decay, LastEvents):
        text += f", among the newest {question.decay.count:,.0f} {counted}"
    if not question.where:
        return text
    own = {column: getattr(names, column) for column in ("value", "weight") if names.alone and getattr(names, column)}
    return f"{text}, over {counted} where {question.where.renamed(own).words()}"


def _counting(question: Question, weighted: bool, counted: str) -> str:
    if not weighted:
        return ""
    if question.by_weight:
        return f", each {counted[:-1]} counted as often as its weight says"
    return "" if question.aggregate in ("count", "correlated-count") else f", each {counted[:-1]} counted once"


def _subject(question: Question, names: Names, counted: str) -> str:
    value, summed, ranked = names.of(question.compared), names.of(question.measured), names.of(question.ranked)
    tau = _tau(question)
    above = f" where {value} is at least {tau}" if question.ranks_above else ""
    match question.aggregate:
        case "sum" | "mean":
            return f"the {question.aggregate} of {summed}"
        case "variance":
            return f"the variance of {summed}"
        case "stddev":
            return f"the standard deviation of {summed}"
        case "ratio":
            one, other = (counted if name == "events" else names.of(name or "") for name in (question.of, question.per))
            return f"the sum of {one} over that of {other}" if one != counted else f"{counted} over the sum of {other}"
        case "count":
            return f"the number of {counted}"
        case "correlated-sum" | "correlated-mean":
            return f"the {question.aggregate.removeprefix('correlated-')} of {summed} where {value} is at least {tau}"
        case "correlated-count":
            return f"the number of {counted} where {value} is at least {tau}"
        case "median":
            return f"the median of {ranked}{above}"
        case "quantile":
            shares = ", ".join(f"{phi:g}" for phi in question.phis or (question.phi or 0.0,))
            return f"the {shares} quantile{'s' if question.phis else ''} of {ranked}{above}"
        case "selectivity" if question.share:
            return f"the share of {counted} where {question.share.words()}"
        case "selectivity" if question.tau is not None:
            return f"the share of {counted} where {value} is at least {tau}"
        case "selectivity" | "range-frequency":
            return f"the share of {counted} where {value} is {_between(question)}"
        case "range-sum":
            return f"the sum of {summed} where {value} is {_between(question)}"
        case "rank":
            return f"the share of {counted} where {value} is at most {question.value}"
        case "frequency":
            return f"the share of {counted} where {value} is {_quoted(question.value)}"
        case "heavy-hitters":
            return f"the most frequent values of {value}"
        case "self-join":
            return f"the self-join size of {value}"
        case _:
            return f"the inner product of {value} in two sources"


def _quoted(value: float | str | None) -> str:
    """A value as it is: text in quotes."""
    return f"'{value}'" if isinstance(value, str) else f"{value}"


def _between(question: Question) -> str:
    ends = [f"at least {question.low:g}"] if question.low is not None else []
    return " and ".join([*ends, *([f"at most {question.high:g}"] if question.high is not None else [])])


def _tau(question: Question) -> str:
    threshold = question.threshold
    if threshold is None:
        return "" if question.tau is None else f"{question.tau:g}"
    what = "mean" if threshold.phi is None else "median" if threshold.phi == 0.5 else f"{threshold.phi:g} quantile"
    times = "" if threshold.factor == 1.0 else f"{threshold.factor:g} times "
    return f"{times}the {what} of {'their own group' if threshold.own else 'all of them'}"
