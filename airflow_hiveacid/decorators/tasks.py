"""Task decorators: a function returns a part of a job when its task runs."""

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import (
    AirflowSkipException,
    DecoratedOperator,
    TaskDecorator,
    context_merge,
    determine_kwargs,
    task_decorator_factory,
)

from airflow_hiveacid.hooks.tasks import task_failure
from airflow_hiveacid.hooks.template_fields import INTERVAL, INTERVAL_REMEDY, is_empty_interval
from airflow_hiveacid.operators.changes import HiveAcidChangesOperator
from airflow_hiveacid.operators.job import HiveAcidJobOperator
from airflow_hiveacid.operators.maintenance import HiveAcidCompactOperator
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
from airflow_hiveacid.operators.writes import HiveAcidInsertOperator, HiveAcidMergeOperator
from hiveacid.errors import InvalidJob
from hiveacid.jobs import codec
from hiveacid.jobs.fields import require_partition_names
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.sources import ChangesSource, Input, QuerySource, Source
from hiveacid.jobs.write_jobs import InsertJob

if TYPE_CHECKING:
    from airflow.sdk import Context

_KINDS = {"sql": "query", "path": "path", "name": "table"}
_VIEW = "changed"


class FunctionOperator(DecoratedOperator, HiveAcidJobOperator[Any]):
    """Calls a function when the task runs; its result completes the job of an operator.

    A subclass is one for a decorator, and for the operator that runs the job.
    """

    custom_operator_name: str
    # The XCom with the part of the job that the function has returned.
    result_key: ClassVar[str]
    # The results that the function may return, for the error about others.
    results: ClassVar[str]
    # The function is called when the task runs: then the page shows its result.
    overwrite_rtif_after_execution = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        *_, operator = cls.__bases__
        assert issubclass(operator, HiveAcidJobOperator)
        cls.template_fields = (*DecoratedOperator.template_fields, *operator.template_fields)
        cls.template_fields_renderers = {
            **DecoratedOperator.template_fields_renderers,
            **operator.template_fields_renderers,
        }

    def execute(self, context: "Context") -> Any:
        """Call the function, then run the job."""
        returned = self.call_function(context)
        try:
            part = self.part_of(returned)
        except InvalidJob as error:
            raise task_failure(error) from None
        self.complete_job(part)
        context["ti"].xcom_push(key=self.result_key, value=part)
        return super().execute(context)

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: "Context"
    ) -> Any:
        """Continue after the trigger with the function's earlier result."""
        self.complete_job(self._stored(self.result_key, context))
        return super().resume_execution(next_method, next_kwargs, context)

    @abstractmethod
    def part_of(self, returned: object) -> Any:
        """Return the part of the job that the function has returned, as plain values.

        :param returned: The result of the function.
        :raises InvalidJob: It is no part of the job.
        """

    @abstractmethod
    def complete_job(self, part: Any) -> None:
        """Complete the job, also in the process that continues after a deferral.

        :param part: The part, as ``part_of`` returns it.
        """

    def refused(self, returned: object) -> InvalidJob:
        """Return the error about a result that is no part of the job."""
        return InvalidJob(
            f"The function of {self.custom_operator_name} has returned {returned!r}.",
            remedy=f"Return {self.results}.",
        )

    @classmethod
    def take_job(cls, job_type: type[Job], kwargs: dict[str, Any], **part: Any) -> Job:
        """Take the fields of the job out of the arguments of a decorator.

        :param job_type: The kind of job.
        :param kwargs: The arguments; those of the operator are left.
        :param part: The field that the function returns, with its value until then.
        """
        fields = {field.name: field for field in dataclasses.fields(job_type)}
        # Airflow sets `params` to those of the DAG; the job's are `parameters` here, as in SQL.
        arguments = {
            name: "parameters" if name == "params" else name for name in fields.keys() - part
        }
        taken = {
            name: kwargs.pop(argument) for name, argument in arguments.items() if argument in kwargs
        }
        missing = sorted(
            name
            for name, field in fields.items()
            if name not in {**taken, **part}
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        )
        if missing:
            raise InvalidJob(f"{cls.custom_operator_name} lacks {', '.join(missing)}.")
        return job_type(**taken, **part)

    def call_function(self, context: "Context") -> Any:
        """Return the function's result."""
        context_merge(context, self.op_kwargs)
        arguments = determine_kwargs(self.python_callable, self.op_args, context)
        if arguments.keys() >= INTERVAL and is_empty_interval(context):
            # Not an error: the function may compute an interval of its own.
            self.log.warning(
                "The data interval of this run is empty: its start and its end are both %s. Rows "
                "between them do not exist. %s",
                context["data_interval_end"],
                INTERVAL_REMEDY,
            )
        return self.python_callable(*self.op_args, **arguments)


def decorator_of(
    operator: type[FunctionOperator],
    python_callable: Callable[..., Any] | None,
    arguments: Mapping[str, Any],
) -> TaskDecorator:
    """Return the decorator that makes a function a task of an operator.

    :param operator: The operator, which calls the function.
    :param python_callable: The function; None if the decorator has arguments.
    :param arguments: The arguments of the decorator.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        # The report is one dict, regardless of the function's own annotation.
        multiple_outputs=False,
        decorated_operator_class=operator,
        **arguments,
    )


class SourceFunction(FunctionOperator):
    """Calls a function that returns the source of the job.

    :param inputs: The views that a query without inputs sees which the function returns. (templated)
    :param kwargs: The fields of the job but ``source``, and the parameters of the operator.
    """

    result_key = "source"
    results = "a query, a TableSource, a PathSource, a QuerySource, or one as a dict"

    def __init__(self, *, inputs: Mapping[str, Input] | None = None, **kwargs: Any) -> None:
        # The source is known when the task runs.
        source = QuerySource(sql=self.custom_operator_name, inputs=inputs or {})
        super().__init__(job=self.take_job(self.job_type, kwargs, source=source), **kwargs)

    def part_of(self, returned: object) -> Any:
        """Return a source."""
        return codec.encode(self._source(returned, self.job.source.inputs))

    def complete_job(self, part: Any) -> None:
        """Set the source."""
        source: Source = codec.decode(Source, part, "source")
        self.job = dataclasses.replace(self.job, source=source)

    def _source(self, returned: object, inputs: Mapping[str, Input]) -> Source:
        if isinstance(returned, str):
            return QuerySource(sql=returned, inputs=inputs)
        if isinstance(returned, QuerySource) and not returned.inputs:
            return dataclasses.replace(returned, inputs=inputs)
        if isinstance(returned, Mapping):
            kinds = [kind for field, kind in _KINDS.items() if field in returned]
            described = {"kind": kinds[0], **returned} if kinds else dict(returned)
            decoded: Source = codec.decode(Source, described, "source")
            return decoded
        if not isinstance(returned, Source):
            raise self.refused(returned)
        return returned


class _InsertFunction(SourceFunction, HiveAcidInsertOperator):
    """Appends the source that a function returns, or overwrites with it."""

    custom_operator_name = "@task.hive_acid_insert"


def hive_acid_insert_task(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> TaskDecorator:
    """Make a function the source of an insert; DAG authors write ``@task.hive_acid_insert(...)``.

    Example::

        @task.hive_acid_insert(target="sales.orders")
        def load_orders(data_interval_start=None):
            return {"path": f"/landing/{data_interval_start:%Y-%m-%d}", "format": "parquet"}

    The function returns the same as for ``@task.hive_acid_merge``.

    :param python_callable: The function.
    :param kwargs: ``inputs``; the fields of InsertJob but ``source``, of which ``params`` is
        ``parameters`` here; the parameters of HiveAcidInsertOperator but ``job``.
    """
    return decorator_of(_InsertFunction, python_callable, kwargs)


class _MergeFunction(SourceFunction, HiveAcidMergeOperator):
    """Merges the source that a function returns."""

    custom_operator_name = "@task.hive_acid_merge"


def hive_acid_merge_task(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> TaskDecorator:
    """Make a function the source of a merge; DAG authors write ``@task.hive_acid_merge(...)``.

    Example::

        @task.hive_acid_merge(
            target="sales.orders", on="t.id = s.id", when=[MatchedUpdate(), NotMatchedInsert()]
        )
        def merge_orders(data_interval_start=None):
            return {"path": f"/feeds/{data_interval_start:%Y-%m-%d}", "format": "json"}

    The function returns a TableSource, a PathSource or a QuerySource, the fields of one of them as
    a dict, or a query, which sees the views in ``inputs``.

    :param python_callable: The function.
    :param kwargs: ``inputs``; the fields of MergeJob but ``source``, of which ``params`` is
        ``parameters`` here; the parameters of HiveAcidMergeOperator but ``job``.
    """
    return decorator_of(_MergeFunction, python_callable, kwargs)


class TextFunction(FunctionOperator):
    """Calls a function that returns SQL."""

    result_key = "sql"

    def part_of(self, returned: object) -> str:
        """Return a text that is not empty."""
        if not isinstance(returned, str) or not returned.strip():
            raise self.refused(returned)
        return returned


class _SqlFunction(TextFunction, HiveAcidSqlOperator):
    """Runs the statements that a function returns."""

    # An argument of the function that ends with .sql is not a file to read.
    template_ext: Sequence[str] = ()
    custom_operator_name = "@task.hive_acid_sql"
    results = "one statement or several, separated by semicolons"

    def __init__(self, **kwargs: Any) -> None:
        # The statements are known when the task runs.
        super().__init__(sql="{% raw %}{% endraw %}", **kwargs)

    def complete_job(self, part: str) -> None:
        """Set the statements."""
        self.sql = part


def hive_acid_sql_task(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> TaskDecorator:
    """Run the statements that a function returns; DAG authors write ``@task.hive_acid_sql(...)``.

    Example::

        @task.hive_acid_sql(database="sales")
        def forget(customers):
            return f"DELETE FROM orders WHERE customer IN ({', '.join(map(str, customers))})"

    The statements are read when the task runs. A later attempt should return the same statements:
    the number of a statement identifies it as committed by an earlier attempt.

    :param python_callable: The function.
    :param kwargs: The parameters of HiveAcidSqlOperator but ``sql``.
    """
    return decorator_of(_SqlFunction, python_callable, kwargs)


class _ChangesFunction(TextFunction, HiveAcidChangesOperator):
    """Appends the result of a function's query on the changes of a table.

    :param table: The table whose changes it reads. (templated)
    :param after: The version after which a new consumer begins, or ``oldest``. (templated)
    :param net: See ChangesSource.
    :param keys: See ChangesSource. (templated)
    :param kwargs: The fields of InsertJob but ``source``, and the parameters of the operator.
    """

    custom_operator_name = "@task.hive_acid_changes"
    results = f"a query that reads {_VIEW}"

    def __init__(
        self,
        *,
        table: str,
        after: str = "0",
        net: bool = False,
        keys: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        read = ChangesSource(table, after=after, net=net, keys=tuple(keys))
        # The query is known when the task runs.
        source = QuerySource(sql=self.custom_operator_name, inputs={_VIEW: read})
        super().__init__(job=self.take_job(InsertJob, kwargs, source=source), **kwargs)

    def complete_job(self, part: str) -> None:
        """Set the query."""
        assert isinstance(self.job, InsertJob)
        assert isinstance(self.job.source, QuerySource)
        source = dataclasses.replace(self.job.source, sql=part)
        self.job = dataclasses.replace(self.job, source=source)


def hive_acid_changes_task(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> TaskDecorator:
    """Append a function's query on changes; used as ``@task.hive_acid_changes(...)``.

    Example::

        @task.hive_acid_changes(
            table="shop.orders", consumer="audit", target="audit.order_changes", keys=["id"]
        )
        def log_changes():
            return "SELECT id, status, _change_type AS change, _write_id AS version FROM changed"

    The function returns a query, which sees the changes that the consumer has not copied yet as
    ``changed``.

    :param python_callable: The function.
    :param kwargs: ``table``, ``after``, ``net`` and ``keys`` of the ChangesSource; the fields of
        InsertJob but ``source``; the parameters of HiveAcidChangesOperator but ``job``.
    """
    return decorator_of(_ChangesFunction, python_callable, kwargs)


class _CompactFunction(FunctionOperator, HiveAcidCompactOperator):
    """Compacts the partitions that a function names."""

    custom_operator_name = "@task.hive_acid_compact"
    result_key = "partitions"
    results = 'a list of the names of partitions, like ["day=2026-01-01"]'

    def __init__(self, **kwargs: Any) -> None:
        # A pool here is Airflow's: only workers have one, and they take no partitions.
        pool = {"pool": kwargs.pop("pool")} if "pool" in kwargs else {}
        job = self.take_job(CompactJob, kwargs, partitions=None)
        super().__init__(job=job, **pool, **kwargs)

    def part_of(self, returned: object) -> list[str]:
        """Return the names of partitions."""
        if isinstance(returned, str) or not isinstance(returned, Sequence):
            raise self.refused(returned)
        if not returned:
            raise AirflowSkipException("The function names no partition: there is nothing to do.")
        require_partition_names(returned)
        return list(returned)

    def complete_job(self, part: Sequence[str]) -> None:
        """Set the partitions."""
        self.job = dataclasses.replace(self.job, partitions=tuple(part))


def hive_acid_compact_task(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> TaskDecorator:
    """Compact the partitions that a function returns; used as ``@task.hive_acid_compact(...)``.

    Example::

        @task.hive_acid_compact(target="sales.orders", type="major")
        def compact_yesterday(ds=None):
            return [f"day={ds}"]

    The function returns the names of partitions. If the list is empty, the task is skipped.

    :param python_callable: The function.
    :param kwargs: The fields of CompactJob but ``partitions`` and ``pool``; the parameters of
        HiveAcidCompactOperator but ``job`` and ``need``.
    """
    return decorator_of(_CompactFunction, python_callable, kwargs)
