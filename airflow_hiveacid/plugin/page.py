"""The page as one document: its style, its program and its text, and nothing from elsewhere."""

import base64
import hashlib
from functools import cache
from importlib.resources import files

from hiveacid.rules.conflicts import matrix_rows
from hiveacid.rules.text_table import html_table

_FOLDER = files("airflow_hiveacid.plugin")


def _read(*names: str) -> str:
    return "\n".join(_FOLDER.joinpath(name).read_text(encoding="utf-8") for name in names)


_STYLE = _read("page.css")
# In a function, so that no name of ours hides one of the browser.
_PROGRAM = f"(() => {{\n{_read('elements.js', 'picture.js', 'details.js', 'streams.js', 'mirrors.js', 'maintenance.js', 'columns.js', 'page.js')}\n}})();"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# Only this very style and this very program: text that a table or a user smuggles in stays text.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        f"script-src {_hash(_PROGRAM)}",
        f"style-src {_hash(_STYLE)}",
        "connect-src 'self'",
        "frame-ancestors 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)


@cache
def page() -> str:
    """The whole page."""
    head, *lines = matrix_rows()
    conflicts = html_table("Which of both succeed by the policy strict", head, lines)
    return (
        _read("page.html")
        .replace("<!-- the conflicts -->", conflicts)
        .replace("/* the style */", _STYLE)
        .replace("/* the program */", _PROGRAM)
    )
