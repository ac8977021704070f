"""Tables as wide as the terminal and in its colours; plain for programs, and by NO_COLOR."""

import shutil
import sys
from collections.abc import Collection, Sequence

from hiveacid.rules.printable import print_lines, printable, raw_stream
from hiveacid.rules.text_table import aligned

# Single words in a cell, and their styles.
_STYLES = {
    **dict.fromkeys(("ok", "compacted", "acquired", "current", "removed"), "green"),
    **dict.fromkeys(("waiting", "skipped", "kept", "obsolete"), "yellow"),
    **dict.fromkeys(("wrong", "failed", "aborted", "unreadable"), "red"),
}
_GAP = 2
# The column with the longest texts can be folded to this width.
_NARROWEST = 24


def print_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()
) -> None:
    """Print rows below the names of their columns.

    Where they are wider than the terminal, the column with the longest texts is folded; where that
    is not enough, each row is printed as a list of names and values.

    Args:
        head: The names.
        rows: The cells.
        right: The columns that are aligned to the right, by their numbers.
    """
    head = [printable(name) for name in head]
    rows = [[printable(cell) for cell in row] for row in rows]
    if not (sys.stdout.isatty() and _print_rich(head, rows, right)):
        print_lines(aligned([head, *rows], right))


def _print_rich(head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int]) -> bool:
    try:
        from rich.cells import cell_len
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ModuleNotFoundError:
        return False
    width = shutil.get_terminal_size().columns
    console = Console(file=raw_stream(sys.stdout), width=width, highlight=False, soft_wrap=False)
    widths = [max(map(cell_len, column)) for column in zip(head, *rows, strict=True)]
    widest = max(range(len(head)), key=lambda number: widths[number])
    least = _GAP * len(head) + sum(widths) - widths[widest] + min(widths[widest], _NARROWEST)
    if least > width:
        names = Table(box=None, show_header=False, padding=(0, _GAP, 0, 0))
        names.add_column(style="bold", no_wrap=True)
        names.add_column(overflow="fold")
        for number, row in enumerate(rows):
            if number:
                names.add_row()
            for name, cell in zip(head, row, strict=True):
                if cell:
                    names.add_row(Text(name), Text(cell, _STYLES.get(cell, "")))
        console.print(names)
        return True
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for number, name in enumerate(head):
        table.add_column(
            Text(name),
            justify="right" if number in right else "left",
            no_wrap=number != widest,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*[Text(cell, _STYLES.get(cell, "")) for cell in row])
    console.print(table)
    return True
