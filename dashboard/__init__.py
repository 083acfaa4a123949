"""The web dashboard: pages that pick a question, ask it of the store and draw the answer with its error bound.

All widgets and figures live here. May import `store` and `sketches`; never `ingest` or Spark.
"""
