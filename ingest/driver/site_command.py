"""The command `wane site`: many sites watch a threshold together. Whoever reads its help loads no more than this."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ingest.driver.configuration.monitor_settings import MonitorSettings
    from ingest.driver.configuration.settings import Settings

SITE: Final = (
    "site",
    "watch with many sites whether something crosses a threshold, while they keep quiet",
    "wane site check --config wane.toml",
)
_CODES: Final = (
    "exit codes: 0 done; 2 the settings or options are wrong, or a store cannot be read; 3 a file was left out"
)


def add_site_commands(parser: argparse.ArgumentParser) -> None:
    """Add `check`, `sync` and `status` to the command's parser."""
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check",
        help="at a site, after each ingest and by the clock: write a file only if the centre must hear of it",
        description="Compare what the site's store holds now with its reference, and write a report where it has "
        "left its zone, or a sign of life where half of the lease is over.",
        epilog=f"example: wane site check --config wane.toml. {_CODES}",
    )
    check.add_argument("--site", metavar="NAME", help="which site this is (default: the setting `site`)")
    check.set_defaults(run=_check)
    sync = commands.add_parser(
        "sync",
        help="at the centre: take what the sites have sent, and write what they are to get",
        description="Take all files that have come, balance a few sites or synchronise all, write references, and "
        "say what is known.",
        epilog=f"example: wane site sync --config wane.toml. {_CODES}",
    )
    sync.set_defaults(run=_sync)
    status = commands.add_parser(
        "status",
        help="at the centre: say what is known, since when, and how many messages that took",
        description="Say of each monitor on which side of its threshold it is and since when, or why nobody knows.",
        epilog="example: wane site status --config wane.toml",
    )
    status.set_defaults(run=_status)
    for command in (check, sync, status):
        add = command.add_argument
        add("--config", default="wane.toml", metavar="FILE", help="the settings file (default wane.toml)")
        add("--monitor", action="append", default=[], metavar="NAME", help="only this one; may be given several times")
        add("--now", metavar="T", help="the time of the check, ISO or seconds since 1970 (default: the clock)")
        add("--json", action="store_true", help="print JSON")


def _check(options: argparse.Namespace) -> int:
    from sketches.errors import QuestionError  # noqa: PLC0415  help does not need it
    from store.monitoring.site_check import check  # noqa: PLC0415  likewise

    settings, now = _read(options)
    found = []
    for one in _chosen(settings, options):
        site = options.site or one.site
        if site is None:
            sites = ", ".join(one.rule.sites)
            raise QuestionError(f"which site is this? --site, or the setting `site`, must be one of {sites}")
        found.append(check(one.rule, site, settings.store, one.folder, now))
    return _print(options, ((one.as_dict(), [one.line()], one.problems) for one in found))


def _sync(options: argparse.Namespace) -> int:
    from store.monitoring.centre_sync import sync  # noqa: PLC0415  help does not need it

    settings, now = _read(options)
    found = [sync(one.rule, settings.store, one.folder, now) for one in _chosen(settings, options)]
    return _print(options, ((one.as_dict(), one.standing.lines(), one.problems) for one in found))


def _status(options: argparse.Namespace) -> int:
    from store.monitoring.standing import standings  # noqa: PLC0415  help does not need it

    settings, now = _read(options)
    names = {one.rule.name for one in _chosen(settings, options)}
    found = [one for one in standings(settings.store, now) if one.rule in names]
    for name in sorted(names - {one.rule for one in found}):
        print(f"{name}: `wane site sync` has not run here yet", file=sys.stderr)  # noqa: T201  likewise
    return _print(options, ((one.as_dict(), one.lines(), ()) for one in found))


def _read(options: argparse.Namespace) -> tuple[Settings, int]:
    from datetime import UTC, datetime  # noqa: PLC0415  help does not need it

    from ingest.driver.configuration.settings import read_settings  # noqa: PLC0415  likewise
    from sketches.units import SECOND  # noqa: PLC0415  likewise
    from store.serving.timeline import read_moment  # noqa: PLC0415  likewise

    return read_settings(options.config), read_moment(options.now or "now", SECOND, datetime.now(UTC))


def _chosen(settings: Settings, options: argparse.Namespace) -> list[MonitorSettings]:
    from sketches.errors import QuestionError  # noqa: PLC0415  help does not need it

    known = settings.monitors
    if not known:
        raise QuestionError(f"{settings.path} has no table [monitor.NAME]; docs/monitoring.md has an example")
    for name in options.monitor:
        if name not in known:
            raise QuestionError(f"--monitor is {name!r}; known are: {', '.join(known)}")
    return [known[name] for name in options.monitor or known]


def _print(options: argparse.Namespace, found: Iterable[tuple[dict[str, Any], list[str], tuple[str, ...]]]) -> int:
    code = 0
    for content, lines, problems in found:
        print(json.dumps(content, ensure_ascii=False) if options.json else "\n".join(lines))  # noqa: T201  the command line prints
        for problem in problems:
            print(f"wane: {problem}", file=sys.stderr)  # noqa: T201  likewise
            code = 3
    return code
