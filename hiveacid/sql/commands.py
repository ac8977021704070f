"""ANALYZE, COMMENT, CONVERT, MSCK, OPTIMIZE, RESTORE and TRUNCATE as jobs, read word by word."""

from hiveacid.jobs.analyze_job import AnalyzeJob
from hiveacid.jobs.definitions.catalog_jobs import AlterColumnsJob, TablePropertiesJob
from hiveacid.jobs.definitions.ddl_jobs import ConvertJob, TruncateJob
from hiveacid.jobs.definitions.partitions_job import PartitionsJob
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.write_jobs import RestoreJob
from hiveacid.rules.column_changes import ColumnChange
from hiveacid.rules.names import TableRef, partition_name
from hiveacid.sql.statement import SqlStatement
from hiveacid.sql.words import Words


def analyze_job(statement: SqlStatement) -> AnalyzeJob:
    """ANALYZE TABLE ... [PARTITION (...)] COMPUTE STATISTICS [FOR COLUMNS [...]]."""
    words = Words(statement)
    words.expect("ANALYZE")
    words.expect("TABLE")
    target = words.table()
    partitions = None
    if words.take("PARTITION"):
        at = words.next
        values, _ = words.partition()
        if not values:
            statement.refuse(at, "A partition needs a value of one key.", "Leave PARTITION out.")
        partitions = (partition_name([*values], [*values.values()]),)
    words.expect("COMPUTE")
    words.expect("STATISTICS")
    if not words.take("FOR"):
        words.end()
        return AnalyzeJob(target=target, partitions=partitions, rows_only=True)
    words.expect("COLUMNS")
    columns = None if words.done else words.names()
    words.end()
    return AnalyzeJob(target=target, partitions=partitions, columns=columns)


def comment_job(statement: SqlStatement) -> TablePropertiesJob | AlterColumnsJob:
    """COMMENT ON TABLE name, or ON COLUMN name.name, IS 'text' or NULL."""
    words = Words(statement)
    words.expect("COMMENT")
    words.expect("ON")
    if not words.take("COLUMN"):
        words.expect_one_of(("TABLE", "COLUMN"))
        target = words.table()
        comment = _comment(words)
        if comment is None:
            return TablePropertiesJob(target=target, unset=("comment",), if_exists=True)
        return TablePropertiesJob(target=target, set={"comment": comment})
    at, parts = words.next, words.dotted_name()
    if not 2 <= len(parts) <= 3:
        statement.refuse(at, "A column is named by its table and its name.", "Write t.a.")
    table = [statement.database, *parts[:-1]][-2:]
    change = ColumnChange(parts[-1].lower(), comment=_comment(words) or "")
    return AlterColumnsJob(target=TableRef.parse(".".join(table)).full_name, change=change)


def _comment(words: Words) -> str | None:
    words.expect("IS")
    comment = None if words.take("NULL") else words.string()
    words.end()
    return comment


def optimize_job(statement: SqlStatement) -> CompactJob:
    """OPTIMIZE name [PARTITION (...)]."""
    words = Words(statement)
    words.expect("OPTIMIZE")
    words.take("TABLE")
    target = words.table()
    partition = words.partition_name() if words.take("PARTITION") else None
    if not words.done:
        statement.refuse(
            words.next,
            f"OPTIMIZE with {words.shown()} is not supported.",
            "ALTER TABLE ... COMPACT 'rebalance' ORDER BY sorts the rows.",
        )
    return CompactJob(target=target, partitions=None if partition is None else (partition,))


def truncate_job(statement: SqlStatement) -> TruncateJob:
    """TRUNCATE TABLE name [PARTITION (...)]."""
    words = Words(statement)
    words.expect("TRUNCATE")
    words.expect("TABLE")
    target = words.table()
    partition = words.partition_values() if words.take("PARTITION") else None
    words.end()
    return TruncateJob(target=target, partition=partition)


def convert_job(statement: SqlStatement) -> ConvertJob:
    """CONVERT TABLE ... [TO ACID]."""
    words = Words(statement)
    words.expect("CONVERT")
    words.expect("TABLE")
    target = words.table()
    if words.take("TO"):
        words.expect("ACID")
    words.end()
    return ConvertJob(target=target)


def restore_job(statement: SqlStatement) -> RestoreJob:
    """RESTORE TABLE ... TO VERSION AS OF 7, or TO SYSTEM_TIME AS OF '2026-03-01 12:00:00'."""
    words = Words(statement)
    words.expect("RESTORE")
    words.expect("TABLE")
    target = words.table()
    words.expect("TO")
    by_write_id = words.take("VERSION")
    # TIMESTAMP is another word for SYSTEM_TIME.
    if not by_write_id and not words.take("TIMESTAMP"):
        words.expect("SYSTEM_TIME")
    words.expect("AS")
    words.expect("OF")
    if not by_write_id:
        words.take("TIMESTAMP")
    as_of = str(words.count("a version")) if by_write_id else words.time()
    words.end()
    return RestoreJob(target=target, as_of=as_of)


def repair_job(statement: SqlStatement) -> PartitionsJob:
    """MSCK REPAIR TABLE ... [ADD PARTITIONS]."""
    words = Words(statement)
    words.expect("MSCK")
    words.expect("REPAIR")
    words.expect("TABLE")
    target = words.table()
    if words.take_one_of(("DROP", "SYNC")):
        statement.refuse(
            words.next,
            "MSCK REPAIR TABLE does not drop partitions.",
            "ALTER TABLE ... DROP PARTITION drops a partition by its values.",
        )
    if words.take("ADD"):
        words.expect("PARTITIONS")
    words.end()
    return PartitionsJob(target=target, action="repair")
