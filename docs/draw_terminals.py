"""Draw the output of the command line: ``python docs/draw_terminals.py``.

Each picture in docs/images/terminal-*.svg is the real output of a command, in a terminal of some
width, on a separate metastore with tables. It is dark or light, as the reader's system is.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import tempfile
import termios
from collections.abc import Mapping
from contextlib import chdir
from io import StringIO
from pathlib import Path

from rich import terminal_theme
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.names import TableRef

IMAGES = Path(__file__).parent / "images"
WIDE, USUAL, NARROW = 118, 80, 58
# The displayed size relative to the drawn one.
LETTERS = 0.62
_INSERTS = "".join(
    f"INSERT INTO shop.orders SELECT id, 'new', id * 1.5, '2026-11-{day}' FROM range({day}000, {day}900);"
    for day in (18, 19, *[20] * 11)
)
TABLES = f"""
CREATE DATABASE shop;
CREATE TABLE shop.orders (id bigint, status string, amount double) PARTITIONED BY (day string);
CREATE TABLE shop.customers (id bigint, name string);
CREATE TABLE shop.clicks (at timestamp, page string) STORED AS PARQUET
TBLPROPERTIES ('transactional_properties' = 'insert_only');
{_INSERTS}
INSERT INTO shop.customers SELECT id, concat('customer ', id) FROM range(2000);
UPDATE shop.customers SET name = upper(name) WHERE id < 900;
INSERT INTO shop.clicks VALUES (TIMESTAMP '2026-11-20 09:00:00', '/')
"""
CHECKED = """hiveacid sql "INSERT INTO shop.customers VALUES (7, 'Ann'), (null, 'Eve')" --checks checks.json"""
CHECKS = """[
  {"kind": "not_null", "columns": ["id"]},
  {"kind": "unique", "columns": ["id"], "whole_table": true}
]"""
ERASE = (
    "hiveacid erase {} --keys {}.txt --column shop.customers.id --column shop.visits.customer"
    " --retention 0"
)
VISITS = """
CREATE TABLE shop.visits (customer bigint, page string);
INSERT INTO shop.visits SELECT id % 2000, concat('/', id) FROM range(9000)
"""
# The fonts are those that the reader has: nothing is fetched from elsewhere.
_FORMAT = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code, monospace", "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
)
_COMPLETE_BAR = re.compile(r"━.* (\d+)/(\d+) ")


def main() -> None:
    """Make the tables, and draw all pictures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedMetastore(directory=Path(folder) / "metastore") as metastore,
        chdir(folder),
    ):
        Path("checks.json").write_text(CHECKS)
        environment = {
            **os.environ,
            "HIVEACID_METASTORE": metastore.uri,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        printed(f"hiveacid sql '{TABLES.replace(chr(39), DOUBLE)}'", WIDE, environment)
        for width, name in ((WIDE, "wide"), (NARROW, "narrow")):
            draw(f"terminal-tables-{name}", "hiveacid tables", width, environment)
        wrong = 'hiveacid sql "DELETE FROM shop.ordrs WHERE id = 1"'
        draw("terminal-error", wrong, WIDE, environment)
        draw("terminal-check", CHECKED, WIDE, environment)
        draw("terminal-plan", "hiveacid plan shop.orders", WIDE, environment)
        draw("terminal-compact", "hiveacid compact shop.orders", WIDE, environment, bar=True)
        draw_erasures({**environment, "AIRFLOW__HIVE_ACID__ERASURES": f"file:{folder}/erasures"})


DOUBLE = "'\"'\"'"


def draw_erasures(environment: Mapping[str, str]) -> None:
    """Draw requests to erase customers, of which one waits for a reader, and a certificate."""
    printed(f"hiveacid sql '{VISITS.replace(chr(39), DOUBLE)}'", WIDE, environment)
    for request, keys in (("2026-11-19", "7\n8\n"), ("2026-11-20", "9\n")):
        Path(f"{request}.txt").write_text(keys)
    printed(ERASE.format(*["2026-11-19"] * 2), USUAL, environment)
    options = MetastoreOptions(uris=environment["HIVEACID_METASTORE"])
    report = TableRef("shop", "visits")
    run = "weekly_report/scheduled__2026-11-20T00:00:00+00:00/export/-1"
    with MetastoreClient(options) as client, Transaction(client, reads=[report], run_token=run):
        printed(ERASE.format(*["2026-11-20"] * 2), USUAL, environment)
    draw("terminal-erasures", "hiveacid erasures", USUAL, environment, gaps=True)
    with chdir("erasures"):
        shown = "cat 2026-11-19/certificate.txt"
        draw("terminal-certificate", shown, USUAL, environment, gaps=True)


def draw(
    name: str,
    command: str,
    width: int,
    environment: Mapping[str, str],
    bar: bool = False,
    gaps: bool = False,
) -> None:
    """Draw the output of a command; with a bar, its state halfway, and the final output.

    With gaps, empty lines of the output are kept: it has no bars.
    """
    output = printed(command, width, environment)
    lines = output.splitlines() if gaps else screen(output, bar)
    # The picture cuts the lower half of the last line.
    text = Text.from_ansi("\n".join([*lines, ""]))
    title = command
    dark, light = (
        exported(text, title, width, theme)
        for theme in (terminal_theme.DIMMED_MONOKAI, terminal_theme.DEFAULT_TERMINAL_THEME)
    )
    (IMAGES / f"{name}.svg").write_text(by_scheme(light, dark), encoding="utf-8")


def printed(command: str, width: int, environment: Mapping[str, str]) -> str:
    """Return the output of a command in a terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    settings = {**environment, "TERM": "xterm-256color", "COLUMNS": str(width)}
    process = subprocess.Popen(
        command, shell=True, stdin=slave, stdout=slave, stderr=slave, env=settings
    )
    os.close(slave)
    output = b""
    while True:
        try:
            output += os.read(master, 1 << 16)
        except OSError:  # The other end is closed.
            break
    process.wait()
    return output.decode(errors="replace")


def screen(output: str, bar: bool) -> list[str]:
    """Return the lines of a terminal, without overwritten ones."""
    lines = re.split(r"\r?\n|\r", re.sub(r"\x1b\[[\d;?]*[A-HJKhlsu]", "\r", output))
    bars = [line for line in lines if "━" in line]
    kept = [line for line in lines if line.strip() and "━" not in line]
    if bar:
        counted = [line for line in bars if _COMPLETE_BAR.search(line)]
        kept.insert(0, (counted or bars)[len(counted or bars) // 2])
    return kept


def exported(text: Text, title: str, width: int, theme: terminal_theme.TerminalTheme) -> str:
    """The picture of a terminal."""
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True)
    console.print(text, soft_wrap=False)
    return console.export_svg(title=title, theme=theme, code_format=_FORMAT, unique_id="t")


def by_scheme(light: str, dark: str) -> str:
    """One picture of two, which differ in their colours: those of the reader's system."""
    rules = " ".join(colours(dark))
    styles = "\n".join([*colours(light), f"@media (prefers-color-scheme: dark) {{ {rules} }}"])
    plain = re.sub(r'<rect fill="#\w+" stroke=', '<rect class="t-back" stroke=', light, count=1)
    plain = re.sub(r'(class="t-title" )fill="#\w+" ', r"\1", plain, count=1)
    plain = plain.replace('stroke="rgba(255,255,255,0.35)"', 'stroke="#8888"')
    plain = re.sub(r'(viewBox="0 0 ([\d.]+) )', _sized, plain, count=1)
    return plain.replace("</style>", f"{styles}\n</style>", 1)


def _sized(box: re.Match[str]) -> str:
    # A narrow terminal is not blown up to the width of a page.
    return f'width="{float(box[2]) * LETTERS:.0f}" {box[1]}'


def colours(picture: str) -> list[str]:
    """The rules for the colours of a picture."""
    back = re.search(r'<rect fill="(#\w+)" stroke=', picture)
    title = re.search(r'class="t-title" fill="(#\w+)"', picture)
    assert back
    assert title
    named = re.findall(r"^\s*(\.t-r\d+) \{ (.*?) \}$", picture, re.MULTILINE)
    rules = [*named, (".t-back", f"fill: {back[1]}"), (".t-title", f"fill: {title[1]}")]
    return [f"{name} {{ {css} }}" for name, css in rules]


if __name__ == "__main__":
    main()
