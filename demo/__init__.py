"""The demo: generated calls and sensor readings, ingested by Spark as they arrive, then asked and shown."""
