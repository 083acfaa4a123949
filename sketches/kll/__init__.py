"""Apache DataSketches' KLL sketches, also those that others have made: the family `kll`.

Read `kll_bytes` (the library's bytes, checked before anything else looks at them), `library` (the few calls of the
library), `decayed_ranks` (the kept values of many sketches side by side, weighed by a decay), `kll_answers`, `kll`.
"""
