"""Kept events as bytes: columns in `segments`, their fields in `field_bytes`, many small samples in `whole_bodies`."""
