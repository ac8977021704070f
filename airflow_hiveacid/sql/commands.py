"""ANALYZE, CONVERT, MSCK and RESTORE TABLE as jobs, read word by word: sqlglot has no tree for them."""

from airflow_hiveacid.acid.names import partition_name
from airflow_hiveacid.jobs.analyze_job import AnalyzeJob
from airflow_hiveacid.jobs.ddl_jobs import ConvertJob
from airflow_hiveacid.jobs.partitions_job import PartitionsJob
from airflow_hiveacid.jobs.write_jobs import RestoreJob
from airflow_hiveacid.sql.statement import SqlStatement
from airflow_hiveacid.sql.words import Words


def analyze_job(statement: SqlStatement) -> AnalyzeJob:
    """ANALYZE TABLE ... [PARTITION (...)] COMPUTE STATISTICS [FOR COLUMNS [...]]."""
    words = Words(statement)
    words.expect("ANALYZE")
    words.expect("TABLE")
    target = words.table()
    partitions = None
    if words.take("PARTITION"):
        at = words.next
        known = words.some_keys()
        if not known:
            statement.refuse(at, "A partition needs a value of one key.", "Leave PARTITION out.")
        partitions = (partition_name([key for key, _ in known], [value for _, value in known]),)
    words.expect("COMPUTE")
    words.expect("STATISTICS")
    if not words.take("FOR"):
        words.end()
        return AnalyzeJob(target=target, partitions=partitions, rows_only=True)
    words.expect("COLUMNS")
    columns = None if words.done else words.names()
    words.end()
    return AnalyzeJob(target=target, partitions=partitions, columns=columns)


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
