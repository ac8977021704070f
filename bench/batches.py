"""The contents of the tables, and their changes."""

from pathlib import Path

from engines import KEY
from lineitem import TYPES, lineitem
from pyspark.sql import DataFrame, SparkSession
from session import TASKS

NEIGHBOURS = 2_000


class Batches:
    """Frames of a size.

    Attributes:
        all: The rows of the table.
        spread: One row in twenty, all over the table; a quarter of them are new.
        neighbours: Changes of 2,000 rows in the middle.
        listed: The keys of one row in forty.
    """

    def __init__(self, spark: SparkSession, rows: int, folder: Path) -> None:
        self.spark, self.rows, self.folder = spark, rows, folder
        self.all = self.some(0, rows)
        self.spread = self.kept("spread", self.mixed(rows // 20, seed=99))
        self.neighbours = self.kept("neighbours", self.neighbours_from(rows // 2))
        self.listed = self.kept("listed", self._all_over(rows // 40, 7, rows).select(KEY))

    def some(self, first: int, count: int) -> DataFrame:
        """Rows of the table by their numbers."""
        return lineitem(self.spark, first, first + count, TASKS)

    def fillers(self, first: int, count: int) -> DataFrame:
        """The same, with nothing but a key of their own, which are written in less time."""
        return lineitem(self.spark, first, first + count, TASKS, made_of="0L")

    def neighbours_from(self, first: int) -> DataFrame:
        """Changes of rows that lie beside each other."""
        return _changed(self.some(first, min(NEIGHBOURS, self.rows // 10)))

    def mixed(self, count: int, seed: int, times: int = 1) -> DataFrame:
        """About so many rows all over the table, or one that has so many times its rows.

        A quarter of them are new; each seed makes others.
        """
        new = count // 4
        changed = self._all_over(count - new, seed, times * self.rows)
        return changed.unionByName(self.some(100 * self.rows + seed * count, new))

    def kept(self, name: str, frame: DataFrame) -> DataFrame:
        """The same rows from a file, so that their making is not measured."""
        path = str(self.folder / f"{name}.parquet")
        frame.coalesce(TASKS).write.mode("overwrite").parquet(path)
        return self.spark.read.parquet(path)

    def _all_over(self, count: int, seed: int, rows: int) -> DataFrame:
        chosen = f"pmod(hash({KEY}, {seed}), {rows}) < {count}"
        return _changed(self.some(0, rows).where(chosen))


def _changed(rows: DataFrame) -> DataFrame:
    names = [
        f"cast({name} + 1 as {TYPES[name]}) as {name}" if name == "l_quantity" else name
        for name in TYPES
    ]
    return rows.selectExpr(*names)
