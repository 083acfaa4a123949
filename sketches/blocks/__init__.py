"""How time falls into blocks that grow as they age, for one decay: paper B's merging histogram, paper C's divisions.

Read in this order: `reach` (from which age on a decay lets blocks be so long), `grid` (which block holds which time),
`ageing` (the same of epochs that grow old, whatever the decay).
"""
