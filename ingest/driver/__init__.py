"""What runs on the driver: `job` is the whole run. It takes the settings (`configuration`), finds new `files`, lets
Spark (`session`) sketch them (`sketching`), commits, and ends with a `summary`.
"""
