"""Who may see what: `gate` stands in front of every request, `access` has the rules, `roles` the streams of each."""
