"""The README as a package index shows it: without the links and pictures that lead into the repository."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_ELSEWHERE = r"\]\((?:https?:|#)"
_PICTURE = re.compile(rf"^!\[(?!.*{_ELSEWHERE}).*\)\n\n?", re.MULTILINE)
_LINK = re.compile(rf"\[((?:[^\[\]`]|`[^`]*`)+)(?!{_ELSEWHERE})\]\([^)\s]+\)")


class ReadmeOfIndex(MetadataHookInterface):
    """Puts it into the metadata of wheels and source distributions."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": without_links(text)}


def without_links(text: str) -> str:
    """A page whose links are those that lead to an address, or to a heading of its own."""
    return _LINK.sub(r"\1", _PICTURE.sub("", text))
