"""Watching a function of many sites' windows while the sites keep quiet: the geometric method, with no network.

Read in this order: `readings` (what a site's counters hold), `watched` (which numbers of it a function needs, its value
and its side of a threshold), `zones` (where a site may be without a word), `site` and `centre` (who says what,
and when).
"""
