"""The environment of a page: tables, feeds, and its predefined names."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# The places in pages, and their replacements here. Of a bucket or a cluster only the path is left.
ADDRESSES = {
    "s3a://": "file:FOLDER/s3/",
    '"/feeds/': '"FOLDER/feeds/',
    '"/landing/': '"FOLDER/landing/',
}


# Snippets that no test can run unchanged, by their content, and the reason.
CANNOT_RUN = {
    "pip uninstall": "wants a fresh environment; tests/spark_versions has those of other versions",
    "AnalyzeJob": "stores statistics, which a fake metastore lacks; tests/engine/test_analyze.py runs it",
    "pip install": "wants a fresh environment; release/environment.py makes one",
    "make quickstart": "tests/airflow/test_quickstart.py runs it",
    "make test": "runs all tests",
    "make release": "takes minutes, and builds the last commit; tests/release tests its steps",
    "make playground": "tests/live/test_playground.py runs it",
    "hiveacid demo": "tests/live/test_playground.py runs it",
    "--listen 9108": "goes on until Ctrl-C; tests/cli/test_metrics.py runs it",
    "hiveacid metastore": "goes on until Ctrl-C; tests/metastore/test_embedded.py runs it",
    "docker compose": "wants Docker; tests/live/test_deploy.py runs it where there is some",
    "GSSAPI": "wants a Kerberos realm; make secure has one",
    "venv-pack": "wants the files of a cluster",
    "from pyhive import hive": "is what the page replaces, and wants a HiveServer",
    "to-iceberg sales.orders": "wants a catalog; tests/iceberg exports tables",
    "compare-iceberg sales.orders": "wants a catalog; tests/iceberg compares tables",
    "IcebergExportJob(": "wants a catalog; tests/iceberg exports tables",
    "IcebergCompareJob(": "wants a catalog; tests/iceberg compares tables",
    "maintain = HiveAcidMaintainOperator(": "maps over the output of a task; tests/airflow/test_maintain_operator.py runs it",
    "hiveacid mirrors": "wants a mirror; tests/iceberg/test_mirror_lag.py has some",
    "dbt build": "wants dbt; make dbt runs projects",
    "HITLBranchOperator(": "waits for a person; tests/airflow/test_changes_in_worker.py stages and publishes",
    "EraseJob(": "wants tables with persons; tests/airflow/test_erasure.py erases some",
    "HiveAcidMirrorFreshSensor(": "wants a mirror; tests/airflow/test_mirror_fresh.py waits for some",
}


@dataclass(frozen=True)
class World:
    """The assumed objects of a page.

    Attributes:
        sql: Makes its tables.
        code: Makes its names, among those of the package.
        files: Its feeds, by their paths, with %Y and the like for the hour.
        times: Moments at which it reads tables, which are now.
    """

    sql: str = ""
    code: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    times: tuple[str, ...] = ()


CUSTOMERS = """
    CREATE DATABASE demo;
    CREATE TABLE demo.customers (id bigint, name string, email string) PARTITIONED BY (country string);
    INSERT INTO demo.customers VALUES (1, 'Emmy', 'E@x', 'de'), (2, 'Max', 'm@x', 'de'), (4, 'A', 'a', 'fr');
"""
ORDERS = """
    CREATE DATABASE sales;
    CREATE TABLE sales.orders (id bigint, customer bigint, status string, amount decimal(10,2), ts timestamp)
    PARTITIONED BY (day string);
    INSERT INTO sales.orders VALUES
      (1, 7, 'new', 1, TIMESTAMP '2026-11-19 09:00:00', '2026-11-19'),
      (2, 8, 'new', 2, TIMESTAMP '2026-11-20 09:00:00', '2026-11-20');
"""
PRICES = """
    CREATE DATABASE sales;
    CREATE TABLE sales.orders (id bigint, order_id bigint, country string, price double) PARTITIONED BY (day string);
    CREATE TABLE sales.lines (id bigint, order_id bigint, item string);
    INSERT INTO sales.orders VALUES (7, 1, 'de', 1.5, '2026-05-01');
    INSERT INTO sales.lines VALUES (7, 1, 'tea');
""" + "".join(
    f"INSERT INTO sales.orders VALUES ({id_}, {id_}, 'fr', {id_}, '2026-05-02');"
    for id_ in range(2, 8)
)
VERSIONS = (
    """
    CREATE DATABASE sales; CREATE DATABASE audit; CREATE DATABASE archive;
    CREATE TABLE sales.orders (id bigint, order_id bigint, status string, price double) PARTITIONED BY (day int);
    CREATE TABLE sales.gone LIKE sales.orders;
    CREATE TABLE archive.orders LIKE sales.orders;
    CREATE TABLE audit.order_changes (id bigint, status string, change string, version bigint);
    """
    + "".join(
        f"INSERT INTO sales.orders VALUES ({id_}, {id_}, 'new', {id_}, 1), ({id_}0, 0, 'new', 0, 2);"
        for id_ in range(1, 8)
    )
    + """
    DELETE FROM sales.orders WHERE id IN (2, 20);
    INSERT INTO sales.orders VALUES (8, 8, 'new', 8, 1);
    ALTER TABLE sales.orders COMPACT 'major';
    """
)
SHOP = """
    CREATE DATABASE shop; CREATE DATABASE stage;
    CREATE TABLE shop.customers (id bigint, name string); CREATE TABLE stage.customers LIKE shop.customers;
    CREATE TABLE shop.sales (id bigint, amount int); CREATE TABLE stage.sales LIKE shop.sales;
    INSERT INTO stage.customers VALUES (1, 'Ada');
    INSERT INTO stage.sales VALUES (1, 5);
    INSERT INTO shop.customers VALUES (7, 'Bob');
"""
WAREHOUSE = SHOP.replace("shop", "dw")
FEED_OF_CUSTOMERS = (
    '{"id": 2, "country": "de", "op": "upsert", "name": "Max", "email": "n", '
    '"changed_at": "2026-11-20T09:01:00Z"}\n'
    '{"id": 4, "country": "fr", "op": "delete", "changed_at": "2026-11-20T09:02:00Z"}'
)
JOB = """
job = MergeJob(target="{0}", source=TableSource("{1}"), on="t.id = s.id", when=[MatchedUpdate()])
"""

# A writer of the table during the page.
HELD = """
at_work = MetastoreClient(metastore)
run = "hourly_merge/scheduled__2026-11-20T09:00:00+00:00/merge/-1"
held = Transaction(at_work, targets=[Target(TableRef("sales", "orders"), Operation.UPDATE)], run_token=run)
held.__enter__()
replaced = {"4711": str(held.txn_id)}
"""

WORLDS: Mapping[str, World] = {
    "README.md": World(
        sql=CUSTOMERS
        + """
        CREATE DATABASE shop;
        CREATE TABLE shop.orders (id bigint, status string, amount int) PARTITIONED BY (day string);
        CREATE TABLE shop.corrections LIKE shop.orders;
        INSERT INTO shop.orders VALUES (1, 'new', 1, '2026-11-20');
        INSERT INTO shop.corrections VALUES (1, 'paid', 2, '2026-11-20'), (2, 'new', 2, '2026-11-21');
        CREATE TABLE demo.orders (id bigint);
        """,
        code=JOB.format("demo.customers", "demo.customers")
        + """
changes = spark.sql("SELECT 8L id, 'A' name, 'a' email, 'hu' country, 'upsert' op")
""",
        files={"/feeds/customers/hour/changes.json": FEED_OF_CUSTOMERS},
    ),
    "docs/airflow.md": World(
        sql="""
        CREATE DATABASE sales; CREATE DATABASE landing;
        CREATE TABLE sales.orders (id bigint, customer bigint, at timestamp) PARTITIONED BY (day string);
        CREATE TABLE landing.orders LIKE sales.orders;
        INSERT INTO landing.orders VALUES (1, 7, current_timestamp(), '2026-11-20');
        INSERT INTO sales.orders SELECT 2, 9, NULL, cast(current_date() AS string);
        """,
        code=JOB.format("sales.orders", "landing.orders")
        + "def post(text, remedy):\n    assert text\n",
    ),
    "docs/backfill.md": World(
        sql=ORDERS + "CREATE DATABASE bank;",
        code=JOB.format("sales.orders", "sales.orders"),
    ),
    "docs/cleaning.md": World(sql=ORDERS),
    "docs/compaction.md": World(
        sql=ORDERS
        + "".join(
            f"INSERT INTO sales.orders VALUES ({id_}, 8, 'new', 2, NULL, '2026-11-20');"
            for id_ in range(3, 14)
        )
        + "INSERT INTO sales.orders SELECT 14, 8, 'new', 2, NULL, date_sub(current_date(), 1);"
        + "CREATE DATABASE crm; CREATE TABLE crm.customers (id bigint);"
    ),
    "docs/first-merge.md": World(
        code=JOB.format("demo.customers", "demo.customers")
        + """
changes = spark.sql("SELECT 8L id, 'A' name, 'a' email, 'hu' country, 'upsert' op")
""",
        files={
            "/feeds/customers/%Y-%m-%dT%H/changes.json": FEED_OF_CUSTOMERS,
            "/feeds/customers/hour/changes.json": FEED_OF_CUSTOMERS,
        },
    ),
    "docs/checks.md": World(
        sql="""
            CREATE DATABASE sales; CREATE DATABASE landing;
            CREATE TABLE sales.customers (id bigint); INSERT INTO sales.customers VALUES (7);
            CREATE TABLE sales.orders (id bigint, customer bigint, amount decimal(10,2));
            CREATE TABLE landing.orders (id bigint, customer bigint, amount decimal(10,2));
            INSERT INTO landing.orders VALUES (1, 7, 1.5), (2, 7, 2.5);
            CREATE TABLE sales.rejected_orders
                (id bigint, customer bigint, amount decimal(10,2), failed_checks string, run string);
        """
    ),
    "docs/small-tables.md": World(sql=SHOP),
    "docs/loads.md": World(
        sql=ORDERS
        + """
        CREATE DATABASE dw;
        CREATE TABLE dw.shops (shop bigint, name string);
        CREATE TABLE dw.orders (order_id bigint, shop bigint) PARTITIONED BY (day string);
        CREATE TABLE sales.shops LIKE dw.shops; CREATE TABLE sales.facts LIKE dw.orders;
        INSERT INTO sales.shops VALUES (1, 'Rome');
        """
        + SHOP
        + """
        CREATE TABLE shop.orders (order_id int, country string, price double);
        CREATE TABLE shop.rejected (line string, order_id int);
        """,
        code="""
shops, orders = TableSource("sales.shops"), TableSource("sales.facts")
new_customers = spark.sql("SELECT 9L id, 'Eve' name")
new_sales = spark.sql("SELECT 9L id, 1 amount")
""",
        files={
            "/feeds/customers/2026-11-20T09/c.json": '{"id": 1, "seq": 1}\n{"id": 1, "seq": 2}',
            "/feeds/forget/2026-11-20/requests.json": '{"customer": 7}',
            "s3a://landing/orders/%Y-%m-%d/orders.csv": "1,de,2.5\n2,fr,much",
        },
    ),
    "docs/migrating.md": World(
        sql="""
        CREATE DATABASE shop; CREATE DATABASE sales; CREATE DATABASE stage;
        CREATE TABLE shop.orders (id bigint, status string) PARTITIONED BY (day string);
        CREATE TABLE stage.orders LIKE shop.orders; CREATE TABLE stage.changes LIKE shop.orders;
        INSERT INTO stage.changes SELECT 1, 'new', cast(current_date() AS string);
        CREATE TABLE stage.corrections (id bigint, status string, amount decimal(10,2))
        PARTITIONED BY (day string);
        INSERT INTO stage.corrections VALUES (1, 'new', 2, '2026-11-20');
        """,
        # A plain table.
        code="""
columns = [HiveColumn("id", "bigint"), HiveColumn("status", "string")]
columns += [HiveColumn("amount", "decimal(10,2)")]
plain = HiveTable.new(
    TableRef("sales", "orders"),
    columns,
    partition_keys=[HiveColumn("day", "string")],
    kind=TableKind.NOT_ACID,
)
MetastoreClient(metastore).create_table(plain)
""",
    ),
    "docs/notebook.md": World(sql=PRICES),
    "docs/operating.md": World(
        sql=ORDERS,
        code=HELD + "replaced['4712'] = str(at_work.open_txn('etl', 'worker-1', None))",
    ),
    "docs/production.md": World(sql=ORDERS, code=JOB.format("sales.orders", "sales.orders")),
    "docs/reading.md": World(
        sql=PRICES,
    ),
    "docs/reference/jobs.md": World(
        sql=SHOP + "CREATE TABLE shop.orders (id bigint); CREATE DATABASE archive;"
        "CREATE TABLE archive.orders LIKE shop.orders; INSERT INTO shop.orders VALUES (1)"
    ),
    "docs/reference/operators.md": World(
        sql=WAREHOUSE
        + """
        CREATE DATABASE sales; CREATE DATABASE landing; CREATE DATABASE shop; CREATE DATABASE audit;
        CREATE TABLE sales.orders (id bigint, customer_id bigint, status string, delivered_at date);
        INSERT INTO sales.orders VALUES (1, 7, 'new', DATE '2025-01-01');
        CREATE TABLE landing.orders LIKE sales.orders;
        CREATE TABLE shop.orders (id bigint, status string);
        INSERT INTO shop.orders VALUES (1, 'new');
        CREATE TABLE audit.order_changes (id bigint, status string, change string, version bigint);
        """,
        code="""
rows = spark.sql("SELECT 3L id, 9L customer_id, 'new' status, DATE '2026-01-01' delivered_at")
rows.write.parquet("/landing/orders")
""",
        files={
            "/feeds/orders/%Y-%m-%d/o.json": '{"id": 2, "customer_id": 8, "status": "new", '
            '"delivered_at": null, "op": "upsert"}',
            "s3a://landing/orders/o.json": '{"id": 2, "status": "new"}',
        },
    ),
    "docs/reference/python.md": World(
        sql=WAREHOUSE
        + """
        CREATE DATABASE sales;
        CREATE TABLE sales.orders (id bigint, status string, due date, country string, price double);
        CREATE TABLE sales.lines (id bigint);
        CREATE TABLE dw.orders (order_id bigint); CREATE TABLE dw.lines (order_id bigint);
        INSERT INTO sales.orders VALUES (1, 'new', DATE '2026-01-01', 'de', 1.5);
        """
        + "".join(
            f"INSERT INTO sales.orders VALUES ({id_}, 'new', NULL, 'de', 1);" for id_ in range(2, 8)
        ),
        code=JOB.format("sales.orders", "sales.orders")
        + """
import duckdb, pandas, polars, pyarrow
from contextlib import ExitStack
table = orders = AcidTable("sales.orders", metastore, spark=spark)
changes = spark.sql("SELECT 1L id, 'new' status, DATE '2026-01-01' due, 'de' country, 1D price, 'U' op")
new_customers = spark.sql("SELECT 9L id, 'Eve' name")
sales = spark.sql("SELECT 9L id, 1 amount")
""",
    ),
    "docs/reference/sensors.md": World(
        sql=ORDERS + "CREATE DATABASE shop; CREATE TABLE shop.orders (id bigint);"
        "CREATE TABLE shop.log LIKE shop.orders; INSERT INTO shop.orders VALUES (1)",
        code="job = mirror_job('shop.orders', 'shop.log', ['id'])",
    ),
    "docs/security.md": World(sql=SHOP),
    # Its statements are run by tests/engine/test_sql_guide.py, which compares the rows.
    "docs/sql.md": World(
        sql=ORDERS + "CREATE DATABASE landing; CREATE TABLE landing.changes LIKE sales.orders",
        files={
            "sql/daily.sql": "DELETE FROM sales.orders WHERE id = 2",
            "daily.sql": "DELETE FROM orders WHERE id = 2",
        },
    ),
    "docs/streams.md": World(
        sql="CREATE DATABASE shop; CREATE TABLE shop.orders (id bigint, status string)",
        files={"s3a://landing/orders/o.json": '{"id": 2, "status": "new"}'},
    ),
    "docs/to-iceberg.md": World(sql=ORDERS),
    "docs/types.md": World(
        sql="CREATE DATABASE shop; CREATE TABLE shop.orders (id bigint)",
        files={"/feeds/orders/2026-11-20/orders.json": '{"id": 1, "note": "new column"}'},
    ),
    "docs/versions.md": World(
        sql=VERSIONS,
        times=("2026-03-01T12:00:00+00:00", "2026-03-02 00:00:00", "2026-03-01"),
    ),
}
