"""All groups of a split in one pass: `grouped_answers` answers, `share_changes` compares two stretches of time."""
