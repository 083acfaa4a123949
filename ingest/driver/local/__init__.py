"""The engine of a site without Java: `engine` sketches in this process, by the same functions as Spark's workers."""
