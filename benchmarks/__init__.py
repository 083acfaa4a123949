"""Scripts anyone can run that measure accuracy, size and speed; each prints a table and writes it under docs/."""
