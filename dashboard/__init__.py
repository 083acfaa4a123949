"""The web dashboard: pages that pick a question, ask it of the store and draw the answer with its error bound.

`launch` starts the server, `app` declares the pages, one file each in `screens`. They pick with `parts`, ask with
`asking`, and draw with `figures`; `door` says who may see what, `boards` keeps panels together.

All widgets and figures live here. May import `store` and `sketches`; never `ingest` or Spark.
"""

from typing import Final

PORT: Final = 8501  # where the server listens unless it is told otherwise
LOOPBACK: Final = "127.0.0.1"
