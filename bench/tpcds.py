"""TPC-DS: tables and queries of its own generator, and the refresh sets for data maintenance.

The generator dsdgen and the queries are in an extension of DuckDB, which is downloaded once from PyPI
into a folder of its own. That dsdgen makes no refresh sets. Therefore one execution of the data
maintenance inserts the orders whose number has a certain remainder modulo 100, with their returns,
again under new numbers, and deletes the orders of three weeks with their returns.
"""

import fcntl
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from hiveacid.metastore.dev.distribution import cache_folder

DUCKDB = "1.5.5"
# Queries that read the maintained tables, and whose result has a complete order.
QUERIES = (7, 12, 15, 19, 25, 29, 40, 42, 45, 85, 93, 96)
REFRESHES = 100
WEEK, WEEKS = 7, 3
_PROGRAM = """\
import json, sys, duckdb, duckdb_extension_tpcds
from pathlib import Path
scale, folder, queries = float(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
extension = next(Path(duckdb_extension_tpcds.__file__).parent.rglob("*.duckdb_extension"))
db = duckdb.connect()
db.execute("SET enable_progress_bar = false")
db.execute(f"LOAD '{extension}'")
db.execute(f"CALL dsdgen(sf={scale})")
for (table,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall():
    db.execute(f"COPY {table} TO '{folder}/{table}.parquet'")
texts = dict(db.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall())
(folder / "queries.json").write_text(json.dumps({number: texts[number] for number in queries}))
"""
_DATE_KEY = r"((?:\w+\.)?)d_date_sk"
_FACT_KEY = r"((?:\w+\.)?)(ss|sr|cs|cr|ws|wr)_(?:sold|returned)_date_sk"


@dataclass(frozen=True)
class Fact:
    """A table that the data maintenance changes, partitioned by month.

    Attributes:
        name: Its name.
        prefix: The prefix of its columns.
        date: The column with the number of the day.
        number: The column with the number of the order.
    """

    name: str
    prefix: str
    date: str
    number: str

    @property
    def month(self) -> str:
        """The partition key: the number of a month, or of several together."""
        return f"{self.prefix}_month"

    @property
    def amount(self) -> str:
        """A column with an amount of money."""
        return f"{self.prefix}_net_{'loss' if self.prefix[1] == 'r' else 'profit'}"


# Each table of orders with the table of their returns.
CHANNELS = tuple(
    (
        Fact(f"{name}_sales", f"{letter}s", f"{letter}s_sold_date_sk", f"{letter}s_{number}"),
        Fact(f"{name}_returns", f"{letter}r", f"{letter}r_returned_date_sk", f"{letter}r_{number}"),
    )
    for name, letter, number in (
        ("store", "s", "ticket_number"),
        ("catalog", "c", "order_number"),
        ("web", "w", "order_number"),
    )
)
FACTS = tuple(fact for channel in CHANNELS for fact in channel)


class Tpcds:
    """The base tables of a scale, and refresh sets that are made of them, as Parquet files.

    Attributes:
        folder: The folder of the files.
        queries: The text of each query by its number.
        dimensions: The names of the tables that do not change.
    """

    def __init__(self, folder: Path, months: int = 1) -> None:
        self.folder, self._months = folder, months
        self._db = duckdb.connect()
        self._db.execute("SET threads = 1")
        self._db.execute("SET enable_progress_bar = false")
        for file in folder.glob("*.parquet"):
            self._db.execute(f"CREATE VIEW {file.stem} AS FROM '{file}'")
        names = {fact.name for fact in FACTS}
        self.dimensions = sorted({file.stem for file in folder.glob("*.parquet")} - names)
        texts = json.loads((folder / "queries.json").read_text())
        self.queries = {int(number): with_months(text, months) for number, text in texts.items()}

    @classmethod
    def generate(cls, scale: float, folder: Path, months: int = 1) -> "Tpcds":
        """Run dsdgen for tables with so many months in each partition."""
        folder.mkdir(parents=True)
        environment = os.environ | {"PYTHONPATH": str(_packages())}
        arguments = [str(scale), str(folder), json.dumps(QUERIES)]
        subprocess.run([sys.executable, "-c", _PROGRAM, *arguments], env=environment, check=True)
        return cls(folder, months)

    def base(self, fact: Fact) -> Path:
        """The first rows of a table, with their month."""
        return self._rows(f"base_{fact.name}", f"SELECT * FROM {fact.name}", fact)

    def refresh(self, fact: Fact, execution: int) -> Path:
        """The rows that an execution of the data maintenance inserts."""
        offset = f"(SELECT max({_sales_of(fact).number}) FROM {_sales_of(fact).name})"
        orders = (
            f"SELECT * REPLACE ({fact.number} + {execution + 1} * {offset} AS {fact.number})"
            f" FROM {fact.name} WHERE {fact.number} % {REFRESHES} = {execution % REFRESHES}"
        )
        return self._rows(f"refresh_{execution}_{fact.name}", orders, fact)

    def weeks(self, execution: int) -> list[tuple[int, int]]:
        """The first and last day of each range that an execution deletes."""
        days = "SELECT min(ss_sold_date_sk), max(ss_sold_date_sk) FROM store_sales"
        first, last = self._db.execute(days).fetchall()[0]
        return deleted_weeks(first, last, execution)

    def deleted(self, fact: Fact, execution: int) -> str:
        """The condition for the rows of these ranges, with the months as a query with dates has."""
        ranges = []
        for first, last in self.weeks(execution):
            months = self._db.execute(
                f"SELECT min(d_month_seq) // {self._months}, max(d_month_seq) // {self._months}"
                " FROM date_dim"
                f" WHERE d_date_sk BETWEEN {first} AND {last}"
            ).fetchall()[0]
            ranges.append(
                f"{fact.date} BETWEEN {first} AND {last}"
                f" AND {fact.month} BETWEEN {months[0]} AND {months[1]}"
            )
        return " OR ".join(f"({each})" for each in ranges)

    def _rows(self, name: str, query: str, fact: Fact) -> Path:
        path = self.folder / "facts" / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            self._db.execute(
                f"COPY (SELECT rows.*, d_month_seq // {self._months} AS {fact.month}"
                f" FROM ({query}) AS rows"
                f" LEFT JOIN date_dim ON {fact.date} = d_date_sk"
                f" ORDER BY {fact.number}, {fact.prefix}_item_sk) TO '{path}'"
            )
        return path


def deleted_weeks(first: int, last: int, execution: int) -> list[tuple[int, int]]:
    """Three different weeks between two days; each execution has others, always the same."""
    chosen = random.Random(execution).sample(range((last - first + 1) // WEEK), WEEKS)
    return [(first + WEEK * week, first + WEEK * week + WEEK - 1) for week in sorted(chosen)]


def with_months(query: str, months: int = 1) -> str:
    """A query that joins days of a table, with the join of its months.

    The tables of TPC-DS are usually partitioned by day, so that this join selects partitions.
    """
    month = "d_month_seq" if months == 1 else f"d_month_seq DIV {months}"
    text = re.sub(
        rf"\b{_DATE_KEY}\s*=\s*{_FACT_KEY}\b", rf"\g<0> AND \2\3_month = \1{month}", query
    )
    return re.sub(
        rf"\b{_FACT_KEY}\s*=\s*{_DATE_KEY}\b", rf"\g<0> AND \1\2_month = \3{month}", text
    ).rstrip(" ;\n")


def tables_in(query: str) -> list[Fact]:
    """The maintained tables that a query reads."""
    return [fact for fact in FACTS if re.search(rf"\b{fact.name}\b", query)]


def _sales_of(fact: Fact) -> Fact:
    return next(channel[0] for channel in CHANNELS if fact in channel)


def _packages() -> Path:
    """A folder with DuckDB and the extension, for PYTHONPATH; they are downloaded once."""
    folder = cache_folder() / f"tpcds-{DUCKDB}"
    wanted: Sequence[str] = (f"duckdb=={DUCKDB}", f"duckdb-extension-tpcds=={DUCKDB}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-warn-conflicts"]
            subprocess.run([*pip, "--upgrade", "--target", str(partial), *wanted], check=True)
            partial.rename(folder)
    return folder
