"""`DECAY BY` in SQL: a statement over streams as tables is read, turned into questions, and asked of a store.

Nothing of a statement is executed: sqlglot reads it, and whatever is not one of the forms in docs/sql.md is refused at
the word that asks it. The modules in reading order: `text`, `clauses`, `values`, `aggregates`, `conditions`,
`statement`, `asking`, `answer`.
"""

from typing import TYPE_CHECKING

from sketches.lazy import imported_when_used

if TYPE_CHECKING:
    from store.serving.sql.answer import SqlAnswer
    from store.serving.sql.asking import answer

__getattr__ = imported_when_used(
    __name__, {"store.serving.sql.answer": ["SqlAnswer"], "store.serving.sql.asking": ["answer"]}
)

__all__ = ["SqlAnswer", "answer"]
