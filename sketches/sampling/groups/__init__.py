"""All groups of a split in one pass: `split_sample` is asked, `grouped_answers` answers."""
