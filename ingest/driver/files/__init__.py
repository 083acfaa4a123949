"""Which files are new (`input_files`), and which of them cannot be read as they are (`file_faults`, `text_files`)."""
