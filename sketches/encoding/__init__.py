"""Bytes: the envelope around every sketch, packed columns, the parts that bodies share, values as ordered codes."""
