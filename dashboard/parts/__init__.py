"""Parts of pages that several screens share: the `sidebar` and its controls, filters, time, cards and charts."""
