"""How much of their chance two single answers share: those about all events of a sample, as one group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sketches.decay.functions import LastEvents
from sketches.differences import UNKNOWN
from sketches.question import Question
from sketches.sampling.askable_sample import AskableSample
from sketches.sampling.groups.correlation import correlation_of_all
from sketches.sampling.groups.grouped_inquiry import GroupedInquiry


def correlation_of_answers(askable: AskableSample, question: Question, other: AskableSample, asked: Question) -> float:
    """That of the same question under another decay or as of another time; -1 where nothing is known of it."""
    by_number = isinstance(question.decay, LastEvents) or isinstance(asked.decay, LastEvents)
    if other is not askable or by_number or replace(question, decay=asked.decay, as_of=asked.as_of) != asked:
        return UNKNOWN
    one, two = (_as_one_group(askable, each) for each in (question, asked))
    return correlation_of_all(one, two, askable.sample.totals)


def _as_one_group(askable: AskableSample, question: Question) -> GroupedInquiry:
    sample, as_of = askable.asked(question), np.array([askable.as_of(question)])
    together = replace(sample, codes=np.zeros(len(sample), np.intp))
    confidence, epsilon = askable.confidence(question), askable.parameters.epsilon
    complete = np.array([np.iinfo(np.int64).max])
    return GroupedInquiry(together, question, as_of, confidence, epsilon, complete_since=complete)
