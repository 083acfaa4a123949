"""The packages that wane runs with, as they are installed here: python -m scripts.packages licences|sbom

`licences` prints a line for each package. `sbom` prints a bill of materials as CycloneDX 1.5, in JSON.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution

_NAME = re.compile(r"^[\w.-]+")
_OF_EXTRA = re.compile(r"extra == ['\"]([\w.-]+)")
_EXTRA = "oidc"


def needed(name: str = "wane") -> dict[str, Distribution]:
    """A package and all that it needs here, by name, for wane also its log-in by a provider, which the lock and the
    image have. What is for other systems is not installed, and left out."""
    found: dict[str, Distribution] = {}
    asked = [name]
    while asked:
        wanted = re.sub(r"[-_.]+", "-", asked.pop()).lower()
        if wanted in found:
            continue
        try:
            found[wanted] = distribution(wanted)
        except PackageNotFoundError:
            continue
        extra = _EXTRA if wanted == "wane" else None
        plain = [text for text in found[wanted].requires or () if _of_extra(text) in (None, extra)]
        asked += [match[0] for text in plain if (match := _NAME.match(text))]
    return dict(sorted(found.items()))


def _of_extra(requirement: str) -> str | None:
    """The extra that a requirement belongs to."""
    found = _OF_EXTRA.search(requirement)
    return found[1] if found else None


def licence(package: Distribution) -> str:
    """What a package says of its licence: an SPDX expression, a classifier, or the first line of its text."""
    told = package.metadata.json
    classified = [one.rpartition(" :: ")[2] for one in told.get("classifier", ()) if one.startswith("License ::")]
    text = str(told.get("license") or "").strip()
    return str(told.get("license_expression") or ", ".join(classified) or text.partition("\n")[0] or "not told")


def licences() -> Iterator[str]:
    for name, package in needed().items():
        yield f"{name} {package.version}: {licence(package)}"


def bill() -> dict[str, object]:
    """The bill of materials; equal for equal packages, so that two of them can be compared."""
    components = [
        {
            "type": "library",
            "name": name,
            "version": package.version,
            "purl": f"pkg:pypi/{name}@{package.version}",
            "licenses": [{"license": {"name": licence(package)}}],
        }
        for name, package in needed().items()
    ]
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components}


def main(arguments: list[str]) -> int:
    if arguments == ["licences"]:
        print("\n".join(licences()))  # noqa: T201 - its output is what it is for
    elif arguments == ["sbom"]:
        print(json.dumps(bill(), indent=2))  # noqa: T201 - likewise
    else:
        print("Usage: python -m scripts.packages licences|sbom", file=sys.stderr)  # noqa: T201 - likewise
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
