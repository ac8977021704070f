"""A frame that looks like TPC-H's lineitem: 17 columns, made from row numbers alone."""

from pyspark.sql import DataFrame, SparkSession

from hiveacid.metastore.catalog import HiveColumn

TYPES = {
    "l_orderkey": "bigint",
    "l_linenumber": "int",
    "l_partkey": "bigint",
    "l_suppkey": "bigint",
    "l_quantity": "decimal(15,2)",
    "l_extendedprice": "decimal(15,2)",
    "l_discount": "decimal(15,2)",
    "l_tax": "decimal(15,2)",
    "l_returnflag": "string",
    "l_linestatus": "string",
    "l_shipdate": "date",
    "l_commitdate": "date",
    "l_receiptdate": "date",
    "l_updated": "timestamp",
    "l_shipinstruct": "string",
    "l_shipmode": "string",
    "l_comment": "string",
}
COLUMNS = [HiveColumn(name, type_) for name, type_ in TYPES.items()]


def lineitem(
    spark: SparkSession, first: int, end: int, tasks: int, made_of: str = "id"
) -> DataFrame:
    """The rows whose numbers lie in a range; the same number always makes the same row.

    All columns but the key may be made of something else than the number, which is `id`.
    """
    rows = spark.range(first, end, 1, tasks).selectExpr("id as key", f"{made_of} as id")
    return rows.selectExpr(
        "key as l_orderkey",
        "cast(id % 7 + 1 as int) as l_linenumber",
        "pmod(hash(id), 200000) as l_partkey",
        "pmod(hash(id, 1), 10000) as l_suppkey",
        "cast(pmod(hash(id, 2), 5000) / 100 as decimal(15,2)) as l_quantity",
        "cast(pmod(hash(id, 3), 10000000) / 100 as decimal(15,2)) as l_extendedprice",
        "cast(pmod(hash(id, 4), 11) / 100 as decimal(15,2)) as l_discount",
        "cast(pmod(hash(id, 5), 9) / 100 as decimal(15,2)) as l_tax",
        "element_at(array('A', 'N', 'R'), cast(pmod(hash(id, 6), 3) + 1 as int)) as l_returnflag",
        "element_at(array('O', 'F'), cast(pmod(hash(id, 7), 2) + 1 as int)) as l_linestatus",
        "date_add(date'1992-01-01', pmod(hash(id, 8), 2500)) as l_shipdate",
        "date_add(date'1992-01-01', pmod(hash(id, 9), 2500)) as l_commitdate",
        "date_add(date'1992-01-01', pmod(hash(id, 10), 2500)) as l_receiptdate",
        "timestamp_seconds(694224000 + pmod(hash(id, 11), 200000000)) as l_updated",
        "element_at(array('NONE', 'COLLECT COD', 'TAKE BACK RETURN', 'DELIVER IN PERSON'),"
        " cast(pmod(hash(id, 12), 4) + 1 as int)) as l_shipinstruct",
        "element_at(array('AIR', 'RAIL', 'SHIP', 'TRUCK', 'MAIL'),"
        " cast(pmod(hash(id, 13), 5) + 1 as int)) as l_shipmode",
        "concat('note ', hex(hash(id, 14)), ' ', hex(hash(id, 15))) as l_comment",
    ).selectExpr(*[f"cast({name} as {type_}) as {name}" for name, type_ in TYPES.items()])
