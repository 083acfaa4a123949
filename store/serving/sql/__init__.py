"""`DECAY BY` in SQL: a statement over streams as tables is read, turned into questions, and asked of a store.

Nothing of a statement is executed: sqlglot reads it, and whatever is not one of the forms in docs/sql.md is refused at
the word that asks it. The modules in reading order: `text`, `clauses`, `values`, `aggregates`, `conditions`,
`statement`, `asking`, `sql_answer`.
"""

from typing import TYPE_CHECKING

from sketches.lazy import imported_when_used

if TYPE_CHECKING:
    from store.serving.sql.asking import answer
    from store.serving.sql.sql_answer import SqlAnswer

__getattr__ = imported_when_used(
    __name__, {"store.serving.sql.sql_answer": ["SqlAnswer"], "store.serving.sql.asking": ["answer"]}
)

__all__ = ["SqlAnswer", "answer"]
