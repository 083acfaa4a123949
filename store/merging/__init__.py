"""Stores that merge: what a site brings (`site_state`, from its store or from a `change_file`), what the centre notes
of each site (`contribution`), and one commit that takes the place of what it held of them (`merge`)."""
