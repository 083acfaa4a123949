"""How Spark's Java starts.

Most of the time goes into loading some ten thousand classes and compiling what they run. Set-up leaves an archive of
classes that are loaded already (`ingest.driver.prepare`); Java does without where it is missing or of another Java.
What a run needs only once is not worth optimising, unless Java itself is to read the rows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

CLASSES: Final = Path(sys.prefix, "share", "wane", "spark-classes.jsa")
NO_OPTIMISING: Final = "-XX:TieredStopAtLevel=1"
LAUNCHER: Final = f"{NO_OPTIMISING} -XX:+UseSerialGC"  # of the small program that puts Spark's command together
_WARNINGS_ASIDE: Final = "-Xlog:disable -Xlog:all=warning:stderr"  # else they stand among what a command prints


def java_options(*, reads_rows: bool, classes: Path = CLASSES) -> str:
    """The options with which Spark's Java starts."""
    options = [_WARNINGS_ASIDE]
    if classes.exists():
        options.append(f'"-XX:SharedArchiveFile={classes}"')
    if not reads_rows:
        options.append(NO_OPTIMISING)
    return " ".join(options)
