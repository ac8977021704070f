"""Names of partitions: for each value the same in Hive, in Trino, and here."""

import json
import re
from pathlib import Path

import pytest

from airflow_hiveacid import AcidTable
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef, partition_name
from tests.interop.engines import EngineError

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

NAMES = json.loads((Path(__file__).parents[1] / "data" / "partition_names.json").read_text())
TYPES = [*dict.fromkeys(each["type"] for each in NAMES)]
TRINO_TYPES = {"float": "real", "string": "varchar", "timestamp": "timestamp(9)"}


def create(hive, type_, kind):
    table = f"default.keys_{kind}_{re.sub('[^a-z0-9]', '_', type_)}"
    hive.sql(
        f"CREATE TABLE {table} (id int) PARTITIONED BY (k {type_}) STORED AS ORC"
        " TBLPROPERTIES ('transactional' = 'true')"
    )
    return table


def partitions(hive, table):
    return {name for (name,) in hive.sql(f"SHOW PARTITIONS {table}")}


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("engine", ["hive", "trino"])
def test_the_recorded_names_are_those_of_the_engine(hive, trino, engine, type_):
    for number, each in enumerate(each for each in NAMES if each["type"] == type_):
        # The databases of some metastores ignore trailing blanks: one table for each value.
        table = create(hive, type_, f"{engine}_{number}")
        value = each["value"]
        if engine == "hive":
            hive.sql(f"INSERT INTO {table} PARTITION (k = '{value}') SELECT {number}")
        else:
            as_type = f"CAST('{value}' AS {TRINO_TYPES.get(type_, type_)})"
            statement = f"INSERT INTO hive.{table} SELECT {number}, {as_type}"
            if each["trino"] is None:
                with pytest.raises(EngineError, match="printable ASCII"):
                    trino.sql(statement)
                continue
            trino.sql(statement)
        assert partitions(hive, table) == {partition_name(["k"], [each[engine]])}, value


@pytest.mark.parametrize(
    ("type_", "value", "shown"),
    [
        ("decimal(10,2)", "1.50", "0.01"),
        ("boolean", None, "true"),
        ("varchar(5)", None, "__HIV"),
    ],
)
def test_vectorized_hive_shows_another_value(spark, hive, type_, value, shown):
    table = create(hive, type_, "vectorized")
    key = "NULL" if value is None else f"'{value}'"
    spark_type = "string" if "char" in type_ else type_
    with AcidTable(table, hive.metastore_uri, spark=spark, run_in="spark") as ours:
        ours.append(spark.sql(f"SELECT 1 AS id, CAST({key} AS {spark_type}) AS k"))
    assert hive.sql(f"SELECT k, count(*) FROM {table} GROUP BY k") == [(shown, "1")]


# Hive 4.0.1 reads a decimal key of at most 18 digits as another number.
WIDE = "decimal(20,2)"
# The values of each type in two texts, both of a partition that exists and of a new one.
VALUES = {
    "int": (("7", "007"), ("8", "08")),
    "bigint": (("7", "007"), ("8", "08")),
    "boolean": (("true", "TRUE"), ("false", "False")),
    "double": (("1.0E10", "1e10"), ("1.5", "1.50")),
    WIDE: (("1.5", "1.50"), ("100", "1E+2")),
    "decimal(10,2)": (("1.5", "1.50"), ("100", "1E+2")),
    "date": (("2026-01-01", "2026-01-01"), ("2026-01-02", "2026-01-02")),
    "timestamp": (
        ("2026-01-01 00:00:00.5", "2026-01-01 00:00:00.500"),
        ("2026-01-01 00:00:00", "2026-01-01 00:00:00.0"),
    ),
    "char(5)": (("ab", "ab   "), ("é", "é ")),
    "varchar(5)": (("ab", "ab"), ("é", "é")),
    "string": (("a b/c", "a b/c"), ("é", "é")),
}


@pytest.mark.parametrize("type_", VALUES)
@pytest.mark.parametrize("engine", ["hive", "trino"])
def test_no_value_gets_a_second_partition(spark, hive, trino, engine, type_):
    """The engine and this package write the same values in turns."""
    (known, known_again), (new, new_again) = VALUES[type_]
    if engine == "trino":
        # Trino refuses other texts than ASCII.
        new, new_again = (new, new_again) if new.isascii() else ("z", "z")
    table = create(hive, type_, f"turns_{engine}")

    def theirs(number, value):
        if engine == "hive":
            hive.sql(f"INSERT INTO {table} PARTITION (k = '{value}') SELECT {number}")
        else:
            as_type = f"CAST('{value}' AS {TRINO_TYPES.get(type_, type_)})"
            trino.sql(f"INSERT INTO hive.{table} SELECT {number}, {as_type}")

    def rows(*values):
        # Rows have a char without trailing blanks.
        texts = ", ".join(f"({number}, '{value.rstrip()}')" for number, value in values)
        spark_type = "string" if "char" in type_ else type_
        return spark.sql(
            f"SELECT id, CAST(k AS {spark_type}) AS k FROM VALUES {texts} AS v (id, k)"
        )

    def ids():
        """The ids of the rows, by all three."""
        # Until it is closed, a table keeps the locks of its reads.
        with AcidTable(table, hive.metastore_uri, spark=spark, run_in="spark") as reader:
            found = sorted(row["id"] for row in reader.to_df().select("id").collect())
        texts = [(str(each),) for each in found]
        assert sorted(hive.sql(f"SELECT id FROM {table}"), key=lambda row: int(row[0])) == texts
        in_trino = trino.sql(f"SELECT id FROM hive.{table}")
        assert sorted(in_trino, key=lambda row: int(row[0])) == texts
        return found

    theirs(1, known)
    names = partitions(hive, table)
    with AcidTable(table, hive.metastore_uri, spark=spark, run_in="spark") as ours:
        ours.append(rows((2, known_again)))
        assert (partitions(hive, table), ids()) == (names, [1, 2])
        ours.overwrite(rows((3, known_again)))
        assert (partitions(hive, table), ids()) == (names, [3])
        ours.overwrite(rows((4, known_again)), [{"k": known_again}])
        assert (partitions(hive, table), ids()) == (names, [4])
        ours.append(rows((5, new_again)))
        theirs(6, new)
        assert ids() == [4, 5, 6]
        both = partitions(hive, table)
        assert len(both) == 2
        assert names < both
        merge = ours.merge(rows((5, new_again), (7, known_again)), "t.k = s.k AND t.id = s.id")
        merge.when_matched_update({"id": "s.id + 10"}).when_not_matched_insert_all().execute()
        assert (partitions(hive, table), ids()) == (both, [4, 6, 7, 15])
        ours.update({"id": "id + 100"}, "id = 4")
        ours.delete("id = 6")
        assert (partitions(hive, table), ids()) == (both, [7, 15, 104])
        if engine == "hive":
            hive.sql(f"INSERT OVERWRITE TABLE {table} PARTITION (k = '{new_again}') SELECT 8")
            assert (partitions(hive, table), ids()) == (both, [7, 8, 104])
            hive.sql(f"ALTER TABLE {table} DROP PARTITION (k = '{known_again}')")
            assert (len(partitions(hive, table)), ids()) == (1, [8])
    with MetastoreClient(MetastoreOptions(uris=hive.metastore_uri)) as client:
        names = client.get_partition_names(TableRef.parse(table))
    assert names == sorted(partitions(hive, table))
