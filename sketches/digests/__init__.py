"""Histograms and q-digests whose answers are never outside their bounds: papers C and D.

Read in this order: `dyadic_tree` (the one structure behind all, with its proof), `dyadic_forest` (a tree for each
epoch; `tallies` puts points in order, `forest_bytes` writes it), `digest` (what `histogram` and `qdigest` share), then
from masses in ranges to answers: `code_ranges` (which values a question is about), `mass_bounds`, `sweeps` (in order of
values, at many times at once), `heavy_hitters`, `stated` (what is said in words) and `ranged_masses`; last
`exponential` on `decayed_masses` (the same for one exponential decay, fixed at build), and `divided` with `wbmh` and
`division` (trees of values in blocks of time that grow as they age; `expected_tails` says how wide).
"""
