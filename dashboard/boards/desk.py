"""Where boards are and who may change them, as the options of `wane dashboard` say. Nobody may, unless they do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dashboard.door.roles import Role

USUAL: Final = "boards"  # the folder beside the store
ANNOTATIONS: Final = "annotations.toml"  # the file in that folder


class Desk:
    """What all sessions of a server share. Without options, boards stand beside the store, to be read only."""

    def __init__(self) -> None:
        self.admit()

    def admit(
        self, folder: str = "", annotations: str = "", *, editing: bool = False, roles: Sequence[Role] = ()
    ) -> None:
        """Set the folder of boards, the file of annotations, and whether boards can be changed in the browser: by
        everybody, or by the roles that say so."""
        self._folder = folder
        self._annotations = annotations
        self._editing = editing
        self._editors = {role.name for role in roles if role.edits} if roles else None

    def folder(self, store: Path) -> Path:
        """The folder of the boards of a store; it need not exist."""
        return Path(self._folder) if self._folder else store.parent / USUAL

    def annotations(self, store: Path) -> Path:
        """The file of annotations; it need not exist."""
        return Path(self._annotations) if self._annotations else self.folder(store) / ANNOTATIONS

    def may_edit(self, role: str | None) -> bool:
        """Whether a visitor may change boards and saved views."""
        return self._editing and (self._editors is None or role in self._editors)


desk: Final = Desk()
