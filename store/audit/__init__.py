"""Exact answers over the raw files, where they are still at hand: what estimates are checked against."""
