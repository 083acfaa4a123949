"""The words of the dashboard: each is in the glossary, and every paper leads where the references say."""

from __future__ import annotations

import re
from pathlib import Path

from dashboard import wording, words
from sketches import papers
from tests.support.pages import fine, opened, text_of

DOCS = Path(__file__).parents[3] / "docs"


def test_every_word_is_in_the_glossary_and_told_in_one_line() -> None:
    known = (DOCS / "glossary.md").read_text().lower()
    for lines in words.WORDS.values():
        for word, line in lines.items():
            assert re.search(rf"\\*\\*[^*]*{re.escape(word.lower())}[^*]*\\*\\*", known), word
            assert len(line) <= 120, word
            assert line.endswith((".", "…")), word


def test_every_paper_is_named_with_its_link() -> None:
    """By author and year as answers cite it; the link is that of the references."""
    cited = [name for key, name in vars(papers).items() if key.isupper()]
    assert list(words.LINKS) == cited
    references = (DOCS / "references.md").read_text()
    for name, address in words.LINKS.items():
        (line,) = [one for one in references.splitlines() if f"| {name} |" in one]
        assert address in line
    said = wording.safe(f"within 0.1, by {papers.ECM_SKETCHES}, theorem 2")
    assert f"[{papers.ECM_SKETCHES}]({words.LINKS[papers.ECM_SKETCHES]})" in words.cited(said)


def test_the_page_has_every_word(small: Path) -> None:
    test = fine(opened(small, "glossary"))
    told = text_of(test)
    for lines in words.WORDS.values():
        for word, line in lines.items():
            assert f"##### {words.heading(word)}\n" in told
            assert wording.capitalised(line) in told


def test_weight_is_only_what_an_event_brings_along(small: Path) -> None:
    """How much an age counts is never called a weight, on any page of a stream with weights."""
    for name in ("explore", "distribution", "top_values", "compare"):
        test = fine(opened(small, name, decay="table:0=1,10m=0.5,1h=0"))
        helps = [
            str(one.proto.help) for kind in ("selectbox", "text_input", "select_slider") for one in getattr(test, kind)
        ]
        for said in (text_of(test), *helps):
            assert not re.search(r"decayed weight|weight of an (event|age)|weight falls", said, re.IGNORECASE), name
