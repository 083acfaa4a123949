"""From the file to answers: what is stored, which family answers, its sketches side by side, the answer."""
