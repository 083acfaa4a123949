"""The Spark job: reads raw events, checks them, builds and merges partial sketches, and commits them to the store.

All Spark lives here. May import `sketches` and `store`; never `dashboard`.
"""
