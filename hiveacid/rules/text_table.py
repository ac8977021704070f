"""Rows as tables: of text for terminals, and of HTML for notebooks."""

from collections.abc import Collection, Iterator, Sequence
from html import escape

from hiveacid.rules.printable import printable


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> Iterator[str]:
    """Arrange the cells of each row in columns, indented by two.

    Args:
        rows: The cells; all rows have the same number of them.
        right: The columns that are aligned to the right, by their numbers.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = [
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()


def html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format rows as an HTML table for a notebook; cell content is escaped.

    Args:
        title: The title of the table.
        head: The names of the columns.
        rows: The cells.
    """

    def line(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return (
        f"<table><caption>{escape(title)}</caption><thead>{line('th', head)}</thead>"
        f"<tbody>{body}</tbody></table>"
    )
