"""The groups of events on both sides of a marked time: `share_changes` compares, `groupings` says who is in which."""
