"""The frame and the style that all drawings of measurements share."""

from collections.abc import Iterable
from html import escape

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #57606a }
  .title { font-weight: 600; fill: #24292f }
  .grid { stroke: #d8dee4 }
"""


def document(
    title: str, width: float, height: float, parts: Iterable[str], style: str = STYLE
) -> str:
    """Return a drawing on white ground."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )
