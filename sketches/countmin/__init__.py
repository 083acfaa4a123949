"""Count-Min sketches that forget: paper E (`ecm`), and paper C §7.2 (`retractable`).

Read in this order: `window_logs`, `coalescing`, `window_counter` and `randomised_waves` (counters that remember when
things came, and how they are merged), `ecm_parameters` (from ε and δ to a size), `ecm` (the family; `counter_places`,
`counting` and `log_bytes` build and write it), `counter_contents` and `askable_counters` (from counters to answers),
`window_readings` (counters as plain numbers, for sites that are watched),
`retractable`.
"""
