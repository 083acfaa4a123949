"""The DuckDB file: sketches by stream, source and epoch, the ledger of ingest runs, rejected rows, labels of keys.

All SQL lives here. May import `sketches`; never `ingest`, `dashboard` or Spark.
"""
