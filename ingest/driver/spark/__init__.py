"""The engine that scales: `engine` lets Spark's workers sketch, `reading` lets Spark read what workers cannot."""
