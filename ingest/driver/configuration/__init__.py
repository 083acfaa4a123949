"""The settings file: `settings` reads it, `stream_settings` is one stream, `setting_values` checks each value."""
