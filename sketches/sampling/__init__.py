"""Poisson samples of events, and everything that is estimated from them.

The family `sample` answers every aggregate under any decay; `integral` answers for one decay that is known beforehand.
Read the rooms in this order, and each from the module that its first line names:

- `inclusion`: which events are kept, and with which probability
- `layout`: kept events as bytes
- `totals`: exact totals of rows, by slices of time
- `estimation`: decayed sums over kept events, their variances and intervals
- `difference_estimator`: the same sums beside the exact totals
- `answers`: from sums to each aggregate
- `groups`: all groups of a split at once
- `comparison`: the groups of two stretches of time
- `expiry`: what only `integral` needs

Beside them stand the families themselves (`sample`, `integral`), what all samples can be asked (`askable_sample`), the
samples of one epoch and of a stream (`epoch_sample`,
`ladder_sample`), their bytes (`sample_bytes`), and the widths that the planner expects (`expected_widths`).

Paper A is Cormode, Tirthapura and Xu 2007, paper B is Cormode, Tirthapura and Xu 2009 (`docs/references.md`).
"""
