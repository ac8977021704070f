"""ALTER, ANALYZE, CONVERT and RESTORE TABLE as jobs, read word by word: sqlglot has no tree for them."""

from airflow_hiveacid.acid.compaction import CompactionType
from airflow_hiveacid.acid.names import partition_name
from airflow_hiveacid.jobs.analyze_job import AnalyzeJob
from airflow_hiveacid.jobs.ddl_jobs import ConvertJob
from airflow_hiveacid.jobs.maintenance_jobs import CompactJob
from airflow_hiveacid.jobs.write_jobs import RestoreJob
from airflow_hiveacid.sql.definitions import Definition, alter_definition
from airflow_hiveacid.sql.statement import SqlStatement
from airflow_hiveacid.sql.words import Words


def alter_job(statement: SqlStatement) -> CompactJob | Definition:
    """ALTER TABLE ... COMPACT, or what changes nothing but the definition."""
    words = Words(statement)
    words.expect("ALTER")
    words.expect("TABLE")
    target = words.table()
    partition = words.partition() if words.take("PARTITION") else None
    if words.take("COMPACT"):
        return _compact(statement, words, target, partition)
    if partition is not None:
        statement.refuse(words.next, f"ALTER TABLE ... {words.text()} is not supported.")
    return alter_definition(statement, words, target)


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


def _compact(
    statement: SqlStatement, words: Words, target: str, partition: str | None
) -> CompactJob:
    at = words.next
    kind = words.string().lower()
    if kind not in list(CompactionType):
        statement.refuse(at, f"A compaction is 'minor', 'major' or 'rebalance', not {kind!r}.")
    if words.take("AND"):
        words.expect("WAIT")
    at, order_by = words.next, words.order_by()
    if order_by and kind != CompactionType.REBALANCE:
        statement.refuse(at, f"A {kind} compaction sorts nothing; 'rebalance' does.")
    if not words.done:
        statement.refuse(words.next, f"COMPACT with {words.text()} is not supported.")
    return CompactJob(
        target=target,
        type=kind,
        order_by=order_by,
        partitions=None if partition is None else (partition,),
    )
