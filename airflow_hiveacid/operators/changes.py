"""HiveAcidChangesOperator: process each change of a table once, as an Airflow task."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hiveacid.hooks.tasks import HiveAcidTaskFailure, task_failure
from airflow_hiveacid.operators.job import HiveAcidJobOperator
from hiveacid.errors import InvalidJob, TableReplaced, VersionGone
from hiveacid.jobs import codec
from hiveacid.jobs.export_job import ExportChangesJob, changes_in, reading_changes
from hiveacid.jobs.fields import awaits_rendering, before_rendering, is_template
from hiveacid.jobs.job import Job
from hiveacid.jobs.report import ChangesRange, RunReport
from hiveacid.jobs.run_options import Place
from hiveacid.jobs.sources import ChangesSource
from hiveacid.rules.lag import consumer_token, require_consumer
from hiveacid.rules.names import LocatedTable

if TYPE_CHECKING:
    from airflow.sdk import Context

    from hiveacid.records.consumers import Consumer

_XCOM = "changes"


class HiveAcidChangesOperator(HiveAcidJobOperator[Job]):
    """Runs a job on the changes of a table that its consumer has not seen yet, each of them once.

    The job reads the changes of one table by a ChangesSource, or by several. The operator sets the
    versions to read: they begin at the consumer's position, and end with the newest version that is
    closed to further commits. After the commit the consumer advances. It advances once for each
    change, regardless of attempts, runs, DAGs and kills.

    Example::

        HiveAcidChangesOperator(
            task_id="audit",
            consumer="audit",
            job=InsertJob(
                target="audit.order_changes",
                source=QuerySource(
                    "SELECT id, status, _change_type AS change, _write_id AS version FROM changed",
                    {"changed": ChangesSource("shop.orders", after="0")},
                ),
            ),
        )

    ``mirror_job`` describes the job that makes one table follow another. Without changes, nothing
    is submitted, the report has no ``changes``, and the task succeeds without events of its outlets,
    except in a retry: an earlier attempt may have done the work.

    The cursor of the consumer is a file in the folder of the table, ``_hiveacid_consumers``, where
    the task must be allowed to write; cleanings retain the data that the consumer has yet to read.
    The cursor identifies this creation of the table and the job's target: a recreated table, or a
    job with another target, is refused.

    The parameters below come on top of those of every Spark job, see HiveAcidJobOperator;
    ``once_per`` is not available, because the consumer determines what is applied once.

    :param consumer: A unique name for this use of the table's changes. (templated)
    :param job: The job on the changes. In its ChangesSource, a new consumer begins at ``after``, a
        version or ``oldest``, and ends at ``up_to`` at the latest, if given. (templated)
    """

    job_type = Job

    template_fields: Sequence[str] = (*HiveAcidJobOperator.template_fields, "consumer")
    text_fields: ClassVar[Sequence[str]] = (*HiveAcidJobOperator.text_fields, "consumer")

    # The reads of the consumer, once the job is prepared.
    _reads: "Consumer"

    def __init__(self, *, consumer: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.once_per is not None or self.apply_again:
            raise InvalidJob(
                f"{type(self).__name__} {self.task_id!r} has once_per or apply_again.",
                remedy="Omit it: the consumer ensures that each change is applied once.",
            )
        if getattr(self.job, "run_in", "spark") == "worker":
            raise InvalidJob(
                f"{type(self).__name__} {self.task_id!r} has a job with run_in='worker'.",
                remedy="Omit it: changes are read by Spark.",
            )
        if not is_template(consumer):
            require_consumer(consumer)
        self.consumer = consumer
        with before_rendering():
            self._source(self.job)
        self._range: ChangesRange | None = None

    def _failure(self, job: Job, context: "Context", error: BaseException) -> BaseException:
        failure = super()._failure(job, context, error)
        if self._range is None or not isinstance(failure, HiveAcidTaskFailure):
            return failure
        if failure.error.id != VersionGone.__name__:
            return failure
        remedy = (
            f"Changes after version {self._range.after} were cleaned before {self.consumer!r} copied"
            " them. Start again under another name of the consumer: with after='oldest', if the"
            " copy may lack the changes in between, otherwise with after= a version that the"
            " copy was filled from again. To prevent this, run the"
            " consumer more often, or raise hiveacid.consumer_retention of the table."
        )
        return task_failure(dataclasses.replace(failure.error, remedy=remedy))

    def _prepare(self, context: "Context") -> Job:
        # Thrift is heavy, and this module is imported while DAGs are parsed.
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.records.consumers import Consumer

        require_consumer(self.consumer)
        job = super()._prepare(context)
        source = self._source(job)
        with MetastoreClient(job.connection).patient() as client:
            self._reads = Consumer(client, source.name, self.consumer, job.tables)
            self._range = self._submitted(context) or self._reads.range(source)
            if self._range is None:
                self._reads.begin(self._reads.next_after(source))
                return job
            self._reads.begin(self._range.after)
        record = {**codec.to_record(self._range), "read": codec.encode(self._reads.table)}
        context["ti"].xcom_push(key=_XCOM, value=record)
        start, up_to = self._range.after, self._range.up_to
        if isinstance(job, ExportChangesJob):
            job = dataclasses.replace(job, consumer=self.consumer)
        token = self._reads.token(start)
        return dataclasses.replace(reading_changes(job, start, up_to), run_token=token)

    def _deferred(self, context: "Context") -> Job:
        job, record = self._named(context), self._stored(_XCOM, context)
        if not record:
            return job
        table = codec.decode(LocatedTable, record["read"], _XCOM)
        token = consumer_token(table, self.consumer, record["after"])
        return dataclasses.replace(job, run_token=token)

    def _place(self, job: Job) -> Place:
        return "spark"

    def _apply(
        self, job: Job, context: "Context", run: "Callable[[Job, Context], dict[str, Any]]"
    ) -> dict[str, Any]:
        if self._range is None:
            self.log.info("%s has seen all changes.", self.consumer)
            return RunReport(job="changes", target=job.target).to_dict()
        self.log.info(
            "Changes of %(table)s after version %(after)d up to %(up_to)d.",
            dataclasses.asdict(self._range),
        )
        report = run(job, context)
        # The run that was applied may be another one.
        up_to = max(read["up_to"] for read in report["changes"])
        self._reads.advance(up_to)
        self.log.info("%s has seen all changes up to version %d.", self.consumer, up_to)
        return report

    def _publish(self, job: Job, report: dict[str, Any], context: "Context") -> None:
        if self._range is None and context["ti"].try_number == 1:
            # Airflow creates an event for each outlet that a successful task still has.
            self.outlets = []
        super()._publish(job, report, context)

    def _submitted(self, context: "Context") -> ChangesRange | None:
        """The versions read by the application that a trigger has waited for."""
        record = self._stored(_XCOM, context)
        if not record:
            return None
        fields = {key: value for key, value in record.items() if key != "read"}
        read = codec.read_obligation(ChangesRange, fields, f"The XCom {_XCOM!r}")
        if record["read"] != codec.encode(self._reads.table):
            raise TableReplaced(f"{read.table} was dropped and created again meanwhile.")
        return read

    def _source(self, job: Job) -> ChangesSource:
        """Return the job's source of changes; all its sources of changes read the same table."""
        sources = list(changes_in(job))
        tables = {source.name.lower() for source in sources if not awaits_rendering(source.name)}
        if not sources or len(tables) > 1:
            raise InvalidJob(
                f"{type(self).__name__} {self.task_id!r} reads the changes of "
                f"{' and of '.join(sorted(tables)) or 'no table'}.",
                remedy="Its job needs a ChangesSource, and all of them have to be of one table.",
            )
        return sources[0]
