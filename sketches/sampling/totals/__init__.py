"""Exact totals of rows by slices of time: `slice_totals`, counted by `row_counts`, together in `row_totals`."""
