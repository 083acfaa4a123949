"""What runs in the browser: our few lines around Plotly (`chart.js` first), and Plotly itself, which nobody edits."""

import hashlib
from pathlib import Path
from typing import Final

NAME: Final = "wane.chart"
FOLDER: Final = Path(__file__).parent
SCRIPTS: Final = tuple(sorted(FOLDER.glob("*.js")))
VERSION: Final = hashlib.blake2b(b"".join(file.read_bytes() for file in SCRIPTS), digest_size=6).hexdigest()
ADDRESS: Final = f"/_stcore/bidi-components/{NAME}/{VERSION}"  # of the scripts; it changes with their content
