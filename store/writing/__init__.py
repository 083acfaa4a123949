"""Writing a run of ingest to the file: late events are merged, then one transaction writes all of it or nothing."""
