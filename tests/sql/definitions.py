"""Statements that change partitions, columns, comments and views, with the jobs that they become."""

from airflow_hiveacid.acid.column_changes import ColumnChange
from airflow_hiveacid.acid.partition_filter import KeyComparison
from airflow_hiveacid.jobs.catalog_jobs import AlterColumnsJob, DropTableJob, TablePropertiesJob
from airflow_hiveacid.jobs.ddl_jobs import ColumnSpec
from airflow_hiveacid.jobs.maintenance_jobs import CompactJob
from airflow_hiveacid.jobs.partitions_job import PartitionsJob
from airflow_hiveacid.jobs.view_job import CreateViewJob

DEFINITIONS = {
    "ALTER TABLE t ADD IF NOT EXISTS PARTITION (day='a', N=7) PARTITION (day=DATE '2026-01-01', n=-1)": (
        PartitionsJob(
            target="db.t",
            action="add",
            partitions=(
                (KeyComparison("day", "a"), KeyComparison("n", "7", is_number=True)),
                (KeyComparison("day", "2026-01-01"), KeyComparison("n", "-1", is_number=True)),
            ),
            lenient=True,
        )
    ),
    "alter table t drop partition (day < '2026-01-01', ok <> true), partition (n == null)": (
        PartitionsJob(
            target="db.t",
            action="drop",
            partitions=(
                (KeyComparison("day", "2026-01-01", "<"), KeyComparison("ok", "true", "!=")),
                (KeyComparison("n", None),),
            ),
        )
    ),
    "ALTER TABLE t DROP IF EXISTS PARTITION (d >= 1.5)": PartitionsJob(
        target="db.t",
        action="drop",
        partitions=((KeyComparison("d", "1.5", ">=", is_number=True),),),
        lenient=True,
    ),
    "ALTER TABLE t CHANGE COLUMN A B struct<X:int> COMMENT 'first' AFTER C CASCADE": AlterColumnsJob(
        target="db.t",
        change=ColumnChange("a", name="b", type="struct<X:int>", comment="first", after="c"),
    ),
    "alter table t change a A bigint first": AlterColumnsJob(
        target="db.t", change=ColumnChange("a", type="bigint", first=True)
    ),
    "ALTER TABLE t RENAME COLUMN A TO `b`": AlterColumnsJob(
        target="db.t", change=ColumnChange("a", name="b")
    ),
    "ALTER TABLE t ALTER COLUMN a TYPE decimal(5,2)": AlterColumnsJob(
        target="db.t", change=ColumnChange("a", type="decimal(5,2)")
    ),
    "ALTER TABLE t ALTER COLUMN a COMMENT 'c'": AlterColumnsJob(
        target="db.t", change=ColumnChange("a", comment="c")
    ),
    "ALTER TABLE t REPLACE COLUMNS (A int, b string COMMENT 'c') CASCADE": AlterColumnsJob(
        target="db.t", columns=(ColumnSpec("a", "int"), ColumnSpec("b", "string", "c"))
    ),
    "COMMENT ON TABLE t IS 'c'": TablePropertiesJob(target="db.t", set={"comment": "c"}),
    "comment on table other.t is null": TablePropertiesJob(
        target="other.t", unset=("comment",), if_exists=True
    ),
    "COMMENT ON COLUMN t.A IS 'c'": AlterColumnsJob(
        target="db.t", change=ColumnChange("a", comment="c")
    ),
    "COMMENT ON COLUMN other.t.a IS NULL": AlterColumnsJob(
        target="other.t", change=ColumnChange("a", comment="")
    ),
    "OPTIMIZE t": CompactJob(target="db.t"),
    "optimize other.t partition (day='a')": CompactJob(target="other.t", partitions=("day=a",)),
    "CREATE VIEW v AS SELECT a, b > 1 AS c FROM t JOIN other.u USING (a) /* joined */": CreateViewJob(
        target="db.v",
        text="SELECT a, b > 1 AS c FROM t JOIN other.u USING (a)",
        expanded="SELECT a, b > 1 AS c FROM `db`.t JOIN other.u USING (a)",
        reads=("db.t", "other.u"),
    ),
    "create or replace view v (X, `y`) comment 'c' as with w as (select 1 as a) select a, 2 from w": (
        CreateViewJob(
            target="db.v",
            text="with w as (select 1 as a) select a, 2 from w",
            expanded="with w as (select 1 as a) select a, 2 from w",
            mode="replace",
            columns=("X", "y"),
            comment="c",
        )
    ),
    "CREATE VIEW IF NOT EXISTS other.v AS (SELECT a FROM t)": CreateViewJob(
        target="other.v",
        text="(SELECT a FROM t)",
        expanded="(SELECT a FROM `db`.t)",
        reads=("db.t",),
        mode="create_if_missing",
    ),
    "ALTER VIEW v AS SELECT 1 AS a": CreateViewJob(
        target="db.v", text="SELECT 1 AS a", expanded="SELECT 1 AS a", mode="alter"
    ),
    "DROP VIEW IF EXISTS v": DropTableJob(target="db.v", if_exists=True, view=True),
    "MSCK REPAIR TABLE other.t ADD PARTITIONS": PartitionsJob(target="other.t", action="repair"),
}
