"""From a `view` of the address to an answer (`answer_cache`), and to the command that asks the same (`command`)."""
