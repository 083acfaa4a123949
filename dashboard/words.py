"""The words of the dashboard, each in one line, and the papers behind the guarantees; the page *Words* lists them.

`docs/glossary.md` says more of each word, `docs/references.md` of each paper: a test compares both with this file.
"""

from __future__ import annotations

from typing import Final

from dashboard import wording
from sketches import papers

ADDRESS: Final = "words"
WORDS: Final[dict[str, dict[str, str]]] = {
    "What comes in": {
        "Event": "something that happened: an id, a time, a value and a weight; equal rows are one event.",
        "Value": "what is ranked and compared: a number, or a text, which is then called a key.",
        "Weight": "the number that an event brings along, such as bytes or loss: sums and means are of it.",
        "Field": "a further column of an event: questions sum, filter and split by it.",
        "Stream": "events of one kind.",
        "Source": "where an event came from: a site, a sensor, a region.",
        "Epoch": "a stretch of event time, such as an hour; most families keep one sketch for each.",
        "Reject": "a row that cannot be an event. It is counted with its reason.",
        "Late": "a row of an epoch that was over when it came. It is merged into that epoch.",
        "Repeat": "a row that came before. `sample` counts it once.",
    },
    "What is asked": {
        "Aggregate": "what is computed of the events: a sum, a count, a mean, a quantile …",
        "Measure": "what is summed, averaged or ranked: the weight, the value, a field, or events, each as 1.",
        "Counting": "whether counts, shares, ranks and quantiles count each event once, or as its weight says.",
        "Predicate": "which events a question is about: all others are left out.",
        "Split": "one answer for each source, or for each value of a field. All their intervals hold together.",
        "As-of time": "the moment from which a question looks back. Events after it do not count.",
        "Age": "the as-of time less the event's time.",
        "Decay": "how much an event still counts at each age. You choose it when you ask.",
        "Half-life": "the age at which an event counts half; at twice that age it counts a quarter.",
        "Window": "the age from which on events count nothing.",
        "τ": "a threshold: only events with a value of at least τ count. It may be an aggregate, such as the median.",
        "φ": "a share between 0 and 1: which quantile is meant, or the least share of a listed value.",
        "Quantile": "the value that a given share does not exceed; the median is the quantile at 50%.",
        "Rank": "the share of what counts that lies at or below a value.",
        "Selectivity": "the share of what counts that fulfils a condition.",
        "Frequency": "the share of what counts that has one value.",
        "Rate": "what comes in a second, weighed by the decay.",
        "Self-join": "how much events agree in their values; with two sources, how alike these are.",
    },
    "What comes out": {
        "Estimate": "the answer: a number with its limits.",
        "Interval": "the limits beside a number, in charts the band: between them lies the exact answer.",
        "Confidence": "the probability with which an interval holds the exact answer; *certain* where it always does.",
        "Exact": "an answer whose limits are equal, because every event that counts was kept.",
        "Guarantee": "the sentence that says what an answer promises, and which paper proves it.",
        "Family": "one kind of sketch, with its own strengths: `sample` answers all, others prove more about some.",
        "Planner": "picks the family from which the narrowest interval is to be expected.",
        "Generation": "the number of a commit: each run of ingest that brings something raises it by one.",
        "Gap": "an epoch whose sketch is missing or damaged. It is named, and never answered by a guess.",
        "Audit": "exact answers over the raw files, held against the estimates.",
    },
}
LINKS: Final = {  # of the papers, as answers cite them
    papers.SENSOR_SKETCHES: "https://doi.org/10.1145/1281100.1281132",
    papers.CORRELATED_AGGREGATES: "https://doi.org/10.1002/sam.10053",
    papers.OUT_OF_ORDER_STREAMS: "http://dimacs.rutgers.edu/TechnicalReports/abstracts/2007/2007-10.html",
    papers.ASYNCHRONOUS_STREAMS: "https://doi.org/10.1007/978-3-540-70918-3_40",
    papers.ECM_SKETCHES: "https://doi.org/10.14778/2336664.2336672",
}


def anchor(word: str) -> str:
    """The place of a word on the page of words, as Streamlit makes it of a heading.

    >>> anchor("As-of time"), anchor("τ")
    ('as-of-time', 't-tau')
    """
    return {"τ": "t-tau", "φ": "f-phi"}.get(word) or word.lower().replace(" ", "-")


def heading(word: str) -> str:
    """A word as the page of words has it.

    >>> heading("τ"), heading("Decay")
    ('τ (tau)', 'Decay')
    """
    return {"τ": "τ (tau)", "φ": "φ (phi)"}.get(word, word)


def link(word: str, text: str = "") -> str:
    """A link to a word, for Markdown."""
    return f"[{text or word}](/{ADDRESS}#{anchor(word)})"


def explained(word: str, more: str = "") -> str:
    """The line about a word for the help of a control, what else is to be said there, and the way to all words."""
    line = next(lines[word] for lines in WORDS.values() if word in lines)
    return " ".join(filter(None, (wording.capitalised(line), more, link(word, "All words"))))


def cited(text: str) -> str:
    """A text that is safe for Markdown, in which every paper that is named leads there."""
    for name, address in LINKS.items():
        text = text.replace(name, f"[{name}]({address})")
    return text
