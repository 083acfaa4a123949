"""A statement by its clauses: those that every SQL has, which sqlglot reads, and those that are ours."""

from __future__ import annotations

from dataclasses import field
from typing import Final, NamedTuple

from sqlglot import exp

from sketches.records import dataclass
from store.serving.sql.text import Text, only

WHERE: Final = "WHERE"
DECAY_BY, WINDOW, AS_OF, EVERY = "DECAY BY", "WINDOW", "AS OF", "EVERY"
SOURCES, COUNTING, USING, WITH = "SOURCES", "COUNTING", "USING", "WITH"
_SECOND: Final = {"DECAY": "BY", "AS": "OF"}  # words that begin a clause with another one after them
_OWN: Final = {"DECAY": DECAY_BY, "AS": AS_OF} | {
    name: name for name in (WHERE, WINDOW, EVERY, SOURCES, COUNTING, USING, WITH)
}
_USUAL: Final = frozenset({"SELECT", "FROM", "GROUP BY", "HAVING", "ORDER BY", "LIMIT"})
_BEFORE_A_COLUMN: Final = frozenset({WHERE, "AND", "OR", "NOT", "GROUP BY", "ORDER BY", "HAVING", "FROM", "BY", ","})
_PARTS: Final = frozenset({"expressions", "from_", "group", "having", "order", "limit"})
FORM: Final = (
    "a statement is SELECT … FROM stream [WHERE …] [GROUP BY …] [HAVING …] [ORDER BY …] [LIMIT …], then DECAY BY, "
    "WINDOW, AS OF or EVERY, SOURCES, COUNTING, USING and WITH ERROR in any order"
)


class Part(NamedTuple):
    """A clause of ours: where it begins, and where what it says begins and ends."""

    place: int
    begin: int
    end: int


@dataclass(frozen=True)
class Clauses:
    """A SELECT; `shares` are the predicates of share(…) by the place of the word share."""

    text: Text
    select: exp.Select
    own: dict[str, Part]
    shares: dict[int, Part] = field(default_factory=dict)

    @classmethod
    def read(cls, text: Text, first: int) -> Clauses:
        """The clauses of the SELECT that begins with word `first`."""
        own = _own_clauses(text, first)
        shares = _shares(text, first, own.get(WHERE))
        # What is ours is blanked out for sqlglot, so that all places stay what they are.
        blanked = list(" " * text.words[first].start + text.text[text.words[first].start :])
        for part in own.values():
            blanked[part.place : part.end] = " " * (part.end - part.place)
        for part in shares.values():
            blanked[part.begin : part.end] = " " * (part.end - part.begin)
        if text.words[-1].end + 1 < len(text.text):
            blanked[text.words[-1].end + 1 :] = " " * (len(text.text) - text.words[-1].end - 1)
        begin = text.words[first].start
        found = text.parsed("".join(blanked), begin, "this SELECT")
        if not isinstance(found, exp.Select):
            named = type(found).__name__.upper()
            place = text.place_of(named)
            raise text.refusal(begin if place is None else place, f"{named} is not understood here; {FORM}")
        only(text, found, _PARTS, FORM)
        if not found.expressions:
            raise text.refusal(text.words[first].end + 1, "expected what to select, like count(*) or mean(a column)")
        return cls(text, found, own, shares)


def _own_clauses(text: Text, first: int) -> dict[str, Part]:
    """Our clauses, and WHERE, each with the stretch of text up to the next clause."""
    heads: list[tuple[str, int, int]] = []  # its name, the number of its first word, of the word after its name
    depth, after_from = 0, False
    for at in range(first, len(text.words)):
        word = text.upper(at)
        depth += (word == "(") - (word == ")")
        if depth or text.upper(at - 1) in _BEFORE_A_COLUMN:
            continue
        second = _SECOND.get(word)
        in_every = bool(heads) and heads[-1][0] == EVERY
        if word in _USUAL and not (word == "FROM" and in_every):
            after_from = after_from or word == "FROM"
            heads.append((word, at, at + 1))
        elif after_from and word in _OWN and second in (None, text.upper(at + 1)):
            name = _OWN[word]
            if any(name == known for known, *_ in heads):
                raise text.refusal(text.words[at].start, f"{name} stands here a second time")
            heads.append((name, at, at + (2 if second else 1)))
    ends = [text.words[at].start for _, at, _ in heads[1:]] + [text.words[-1].end + 1]
    found = {}
    for (name, at, then), end in zip(heads, ends, strict=True):
        if name in _USUAL:
            continue
        if then >= len(text.words) or text.words[then].start >= end:
            raise text.refusal(text.words[at].start, f"nothing stands after {name}")
        found[name] = Part(text.words[at].start, text.words[then].start, end)
    return found


def _shares(text: Text, first: int, where: Part | None) -> dict[int, Part]:
    found = {}
    for at in range(first, len(text.words) - 1):
        place = text.words[at].start
        if text.upper(at) != "SHARE" or text.upper(at + 1) != "(":
            continue
        if where is not None and where.begin <= place < where.end:
            continue  # a condition has none, and says so
        end = text.words[text.closing(at + 1)].start
        found[place] = Part(place, text.words[at + 1].end + 1, end)
    return found
