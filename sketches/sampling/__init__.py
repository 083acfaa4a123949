"""Poisson samples of events, and everything that is estimated from them.

Two families live here. `sample` answers every aggregate under any decay. Read in this order:

- which events are kept: `range_sample`, `time_order`, `nested_sample`
- the family and its size: `sample`, `sample_parameters`; `whole_bodies` writes many small samples at once
- kept events with their inclusion probabilities: `poisson_sample`
- decayed sums and variances: `piecewise_decay`, `horvitz_thompson`
- exact totals of rows beside them: `slice_totals`, `row_totals`, `steps`, `residuals`, `leaning`, `leaned_answers`
- from sums to answers: `intervals`, `inquiry`, `estimators`, `quantiles`, `joins`, `curves`, `askable_sample`

`integral` is for one decay that is known beforehand; `expiry_sample` says which events it keeps.

Paper A is Cormode, Tirthapura and Xu 2007, paper B is Cormode, Tirthapura and Xu 2009 (`docs/references.md`).
"""
