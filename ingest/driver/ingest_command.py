"""`wane ingest`: one run, or a dry one, from the options to the exit code."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime

from ingest.driver.configuration.settings import SettingsError, read_settings
from ingest.driver.dry_run import lines_of, preview
from ingest.driver.job import run
from ingest.driver.progress import Progress
from ingest.driver.run_options import RunOptions, backfilled
from ingest.driver.session.start_times import StartTimes, process_begun
from sketches.errors import QuestionError, WaneError
from store import StoreBusyError
from store.locks import RunningError


def ingest(options: argparse.Namespace) -> int:
    settings = read_settings(options.config)
    progress = Progress(quiet=options.quiet or options.json, start=StartTimes(process_begun()))
    chosen = RunOptions(
        options.master,
        options.stream,
        backfilled(options.backfill, settings, options.stream, datetime.now(UTC)),
        options.allow_missing,
        options.wait,
        options.verbose,
        dict(_setting(text) for text in options.conf),
        options.engine,
    )
    if options.engine == "local" and (options.master or options.conf):
        raise QuestionError("--master and --conf are for Spark, and --engine local does without")
    try:
        if options.dry_run:
            previews = preview(settings, chosen, progress)
            for line in lines_of(previews, settings, as_json=options.json):
                print(line)
            return 1 if any(one.error for one in previews) else 0
        summary = run(settings, chosen, progress)
    except SettingsError:
        raise
    except (RunningError, StoreBusyError) as error:
        print(f"wane: {error}", file=sys.stderr)
        return 75
    except WaneError as error:
        print(f"wane: {error}; nothing was committed", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(summary.as_dict(), ensure_ascii=False))
    for line in summary.problems() if options.quiet or options.json else summary.lines():
        print(line, file=sys.stderr if options.json else sys.stdout)
    return summary.exit_code


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.startswith("spark.") and equals):
        raise QuestionError(f"--conf is {text!r}; it must be like spark.executor.memory=4g")
    return name, value
