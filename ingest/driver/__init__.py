"""What runs on the driver: settings, which files are new, Spark's session and jobs, the commit, the summary."""
