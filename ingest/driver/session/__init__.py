"""Spark's session: `spark` starts and stops it, `shipping` brings it our code, `worker_daemon` readies its workers."""
