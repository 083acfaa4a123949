"""From decayed sums to each aggregate: `estimators` lists them all, the other modules are one kind of answer each."""
