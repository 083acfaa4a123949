"""What runs on Spark's executors, and is all of `ingest` that is sent to them. Imports no Spark and no store."""
