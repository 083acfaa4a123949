"""The text of a statement: its words, which part of it means what, and how a word is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlglot import Dialect, ParseError, TokenError, TokenType, exp, parser, tokens
from sqlglot.tokenizer_core import Token

from sketches.errors import DecayError, QuestionError, UnanswerableError, WaneError
from sketches.records import dataclass
from store.serving.sql.limits import LONGEST

MOST_WORDS: Final = 2_000
DEEPEST: Final = 30  # parentheses inside each other
_SHOWN: Final = 40  # characters of a word in a message
_QUOTED: Final = frozenset({TokenType.STRING, TokenType.IDENTIFIER})
_REFUSAL: Final = "the statement is refused at character"
_OF_PREDICATE: Final = re.compile(r"the predicate cannot be read at character (\d+): (.*)", re.DOTALL)
_WORDS: Final = {
    "joins": "JOIN",
    "locks": "FOR UPDATE",
    "alias": "another name",
    "laterals": "LATERAL",
    "direction": "FETCH",
}
_BRACES: Final = frozenset({TokenType.L_BRACE, TokenType.R_BRACE})
_COMMENT: Final = frozenset({"--", "/*", "*/"})


class Wane(Dialect):
    """SQL whose functions are ours alone: sqlglot knows none of them, and there are no comments."""

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS = ['"']  # noqa: RUF012 - as sqlglot declares it
        COMMENTS = []  # noqa: RUF012 - likewise
        COMMANDS = set()  # noqa: RUF012 - likewise; after SHOW and EXPLAIN it would read no words

    class Parser(parser.Parser):
        FUNCTIONS = {}  # noqa: RUF012 - likewise
        NO_PAREN_FUNCTIONS = {}  # noqa: RUF012 - likewise
        FUNCTION_PARSERS = {}  # noqa: RUF012 - likewise
        NO_PAREN_FUNCTION_PARSERS = {}  # noqa: RUF012 - likewise


@dataclass(frozen=True)
class Text:
    """A statement and its words; places in it are numbers of characters, from 0."""

    text: str
    words: tuple[Token, ...]

    @classmethod
    def read(cls, text: str) -> Text:
        """The words; refuses what is too long or too deep before anything looks at its meaning."""
        if len(text) > LONGEST:
            raise QuestionError(f"the statement has {len(text):,} characters; at most {LONGEST:,} are allowed")
        try:
            words = Wane().tokenize(text)
        except TokenError:
            raise QuestionError(f"the statement cannot be read: a quote is not closed in {text[-_SHOWN:]!a}") from None
        if words and words[-1].token_type is TokenType.SEMICOLON:
            words.pop()
        found = cls(text, tuple(words))
        found._check()
        return found

    def _check(self) -> None:
        if not self.words:
            raise QuestionError("the statement is empty; write SELECT count(*) FROM a stream, or SHOW STREAMS")
        if len(self.words) > MOST_WORDS:
            raise self.refusal(self.words[MOST_WORDS].start, f"there are more than the {MOST_WORDS:,} words allowed")
        depth = 0
        for word in self.words:
            depth += (word.token_type is TokenType.L_PAREN) - (word.token_type is TokenType.R_PAREN)
            if depth > DEEPEST:
                raise self.refusal(word.start, f"parentheses stand inside each other more than {DEEPEST} deep")
            if depth < 0:
                raise self.refusal(word.start, "this parenthesis closes nothing")
            if word.token_type is TokenType.SEMICOLON:
                raise self.refusal(word.start, "one statement is answered at a time")
            if word.token_type in _BRACES:
                raise self.refusal(word.start, "braces mean nothing here")
            if word.token_type not in _QUOTED and self.text[word.start : word.start + 2] in _COMMENT:
                raise self.refusal(word.start, "there are no comments")

    def upper(self, at: int) -> str:
        """A word in capitals; nothing for text in quotes and beyond the end."""
        if not 0 <= at < len(self.words) or self.words[at].token_type in _QUOTED:
            return ""
        return self.words[at].text.upper()

    def index(self, place: int) -> int:
        """The number of the word at a place, or of the next one."""
        return next((at for at, word in enumerate(self.words) if word.end >= place), len(self.words))

    def closing(self, at: int) -> int:
        """The number of the word that closes the parenthesis which is word `at`."""
        depth = 0
        for number in range(at, len(self.words)):
            kind = self.words[number].token_type
            depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
            if depth == 0:
                return number
        raise self.refusal(self.words[at].start, "this parenthesis is not closed")

    def refusal(self, place: int | exp.Expr, problem: str, kind: type[WaneError] = QuestionError) -> WaneError:
        """The error that says what is wrong at a place, and with which word."""
        at = place if isinstance(place, int) else self.place(place)
        number = self.index(at)
        if number == len(self.words):
            return kind(f"{_REFUSAL} {len(self.text) + 1}, its end: {problem}")
        word = self.words[number]
        shown = self.text[word.start : word.end + 1][:_SHOWN]
        return kind(f"{_REFUSAL} {word.start + 1}, {shown!a}: {problem}")

    @contextmanager
    def refusing(self, place: int | exp.Expr) -> Iterator[None]:
        """Let what a question or a decay is refused for be said at this place."""
        try:
            yield
        except (QuestionError, UnanswerableError, DecayError) as error:
            if str(error).startswith(_REFUSAL):
                raise
            raise self.refusal(place, str(error), type(error)) from None

    @contextmanager
    def refusing_predicate(self, begin: int) -> Iterator[None]:
        """Let what a predicate that begins here is refused for be said at its place in the statement."""
        try:
            yield
        except QuestionError as error:
            if (match := _OF_PREDICATE.fullmatch(str(error))) is None:
                raise self.refusal(begin, str(error)) from None
            raise QuestionError(f"{_REFUSAL} {begin + int(match[1])}: {match[2]}") from None

    def place(self, node: exp.Expr) -> int:
        """Where a part of the statement begins, as far as its words are known."""
        starts = [int(one.meta["start"]) for one in node.walk() if "start" in one.meta]
        if starts or node.parent is None:
            return min(starts, default=0)
        return self.place(node.parent)

    def place_of(self, word: str) -> int | None:
        """Where a word first stands, in capitals or not."""
        return next((one.start for at, one in enumerate(self.words) if self.upper(at) == word), None)

    def parsed(self, text: str, begin: int, expected: str) -> exp.Expr:
        """What stands in a text that has the statement's places; `expected` says what should, and begins there."""
        try:
            found = Wane().parser(error_message_context=0).parse(Wane().tokenize(text), text)
        except ParseError as error:
            raise self.refusal(self._fault(error, begin), f"{expected} cannot be read here") from None
        except RecursionError:
            raise self.refusal(begin, f"{expected} is nested too deep") from None
        if len(found) != 1 or found[0] is None:
            raise self.refusal(begin, f"expected {expected}")
        found[0].meta.setdefault("start", begin)  # sqlglot knows no place of an interval
        return found[0]

    def part(self, begin: int, end: int, expected: str) -> exp.Expr:
        """What stands between two places, read by itself."""
        return self.parsed(" " * begin + self.text[begin:end], begin, expected)

    def _fault(self, error: ParseError, begin: int) -> int:
        """The place that sqlglot could not go on from."""
        first = error.errors[0] if error.errors else {}
        line, column = first.get("line"), first.get("col")
        if line is None or column is None:
            return begin
        lines = self.text.splitlines(keepends=True)
        return max(sum(map(len, lines[: int(line) - 1])) + int(column) - 1, 0)


def only(text: Text, node: exp.Expr, allowed: frozenset[str], instead: str) -> None:
    """Refuse a part of a statement that says more than is understood here."""
    for name, value in node.args.items():
        if name in allowed or not value:
            continue
        word = _WORDS.get(name, name.strip("_").upper())
        found = value[0] if isinstance(value, list) else value
        place = text.place_of(word.split()[0])
        if place is None:
            place = text.place(found if isinstance(found, exp.Expr) else node)
        raise text.refusal(place, f"{word} is not understood here; {instead}")
