"""@task.hive_acid_insert and @task.hive_acid_merge: writes whose source a function returns."""

import dataclasses
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
from airflow_hiveacid.operators.maintenance import HiveAcidCompactOperator
from airflow_hiveacid.operators.spark import HiveAcidSparkOperator
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
from airflow_hiveacid.operators.writes import HiveAcidInsertOperator, HiveAcidMergeOperator
from hiveacid.errors import InvalidJob
from hiveacid.jobs import codec
from hiveacid.jobs.fields import require_partition_names
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.sources import ChangesSource, Input, QuerySource, Source
from hiveacid.jobs.write_jobs import InsertJob

if TYPE_CHECKING:
    from airflow.sdk import Context


# Common base of the operators of all our task decorators


class FunctionOperator(DecoratedOperator, HiveAcidSparkOperator[Any]):
    """Calls a function when the task runs; its result is a part of the job."""

    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *HiveAcidSparkOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **HiveAcidSparkOperator.template_fields_renderers,
    }
    custom_operator_name: str
    # The XCom with the part of the job that the function has returned.
    result_key: ClassVar[str]
    # The function is called when the task runs: then the page shows its result.
    overwrite_rtif_after_execution = True

    @classmethod
    def take_fields(cls, kwargs: dict[str, Any], returned: str) -> dict[str, Any]:
        """Take the fields of the job out of the arguments of a decorator.

        :param kwargs: The arguments; the operator's own are left.
        :param returned: The field that the function returns.
        """
        fields = {field.name: field for field in dataclasses.fields(cls.job_type)}
        del fields[returned]
        given = {name: kwargs.pop(name) for name in fields.keys() & kwargs.keys()}
        missing = sorted(
            name
            for name, field in fields.items()
            if name not in given
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        )
        if missing:
            raise InvalidJob(f"{cls.custom_operator_name} lacks {', '.join(missing)}.")
        return given

    def use_result(self, result: Any, context: "Context") -> None:
        """Complete the job, also for the process that continues after a deferral.

        :param result: The part of the job that the function has returned, as plain values.
        :param context: The context of the task.
        """
        self.complete_job(result)
        context["ti"].xcom_push(key=self.result_key, value=result)

    def complete_job(self, result: Any) -> None:
        """Complete the job by the part that the function has returned.

        :param result: The part, as plain values.
        """
        raise NotImplementedError

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: "Context"
    ) -> Any:
        """Continue after the trigger with the function's earlier result."""
        result = self._stored(self.result_key, context)
        # An earlier version of this package may have submitted the application.
        if result is not None:
            self.complete_job(result)
        return super().resume_execution(next_method, next_kwargs, context)

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


_KINDS = {"sql": "query", "path": "path", "name": "table"}


class SourceFunctionOperator(FunctionOperator):
    """Calls a function that returns the source of the job.

    :param inputs: The views that a query without inputs sees which the function returns. (templated)
    :param kwargs: The fields of the job but ``source``, and the parameters of the operator.
    """

    result_key = "source"

    def __init__(self, *, inputs: Mapping[str, Input] | None = None, **kwargs: Any) -> None:
        described = self.take_fields(kwargs, "source")
        # The source is known when the task runs.
        source = QuerySource(sql=self.custom_operator_name, inputs=inputs or {})
        job: Any = self.job_type
        super().__init__(job=job(source=source, **described), **kwargs)

    def execute(self, context: "Context") -> Any:
        """Call the function, then run the job."""
        returned = self.call_function(context)
        try:
            source = self._source(returned, self.job.source.inputs)
        except InvalidJob as error:
            raise task_failure(error) from None
        self.use_result(codec.encode(source), context)
        return super().execute(context)

    def complete_job(self, result: Mapping[str, Any]) -> None:
        """Set the source."""
        source: Source = codec.decode(Source, result, "source")
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
            raise InvalidJob(
                f"The function of {self.custom_operator_name} has returned {returned!r}.",
                remedy="Return a query, a TableSource, a PathSource, a QuerySource, or one as a "
                "dict.",
            )
        return returned


class _HiveAcidInsertDecoratedOperator(SourceFunctionOperator, HiveAcidInsertOperator):
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
    :param kwargs: ``inputs``; the fields of InsertJob but ``source``; the parameters of
        HiveAcidInsertOperator but ``job``.
    """
    return decorator_of(_HiveAcidInsertDecoratedOperator, python_callable, kwargs)


class _HiveAcidMergeDecoratedOperator(SourceFunctionOperator, HiveAcidMergeOperator):
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
    :param kwargs: ``inputs``; the fields of MergeJob but ``source``; the parameters of
        HiveAcidMergeOperator but ``job``.
    """
    return decorator_of(_HiveAcidMergeDecoratedOperator, python_callable, kwargs)


# @task.hive_acid_sql: statements that a function returns


class _HiveAcidSqlDecoratedOperator(FunctionOperator, HiveAcidSqlOperator):
    """Runs the statements that a function returns."""

    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *HiveAcidSqlOperator.template_fields,
    )
    # An argument of the function that ends with .sql is not a file to read.
    template_ext: Sequence[str] = ()
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **HiveAcidSqlOperator.template_fields_renderers,
    }
    custom_operator_name = "@task.hive_acid_sql"
    result_key = "sql"

    def __init__(self, **kwargs: Any) -> None:
        # The statements are known when the task runs.
        super().__init__(sql="{% raw %}{% endraw %}", **kwargs)

    def execute(self, context: "Context") -> Any:
        """Call the function, then run the returned statements."""
        returned = self.call_function(context)
        if not isinstance(returned, str) or not returned.strip():
            error = InvalidJob(
                f"The function of {self.custom_operator_name} has returned {returned!r}.",
                remedy="Return one statement or several, separated by semicolons.",
            )
            raise task_failure(error)
        self.use_result(returned, context)
        return super().execute(context)

    def complete_job(self, result: str) -> None:
        """Set the statements."""
        self.sql = result


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
    return decorator_of(_HiveAcidSqlDecoratedOperator, python_callable, kwargs)


# @task.hive_acid_changes: a query on a table's changes that a function returns


_VIEW = "changed"


class _HiveAcidChangesDecoratedOperator(FunctionOperator, HiveAcidChangesOperator):
    """Appends the result of a function's query on the changes of a table.

    :param python_callable: Returns the query.
    :param table: The table whose changes it reads. (templated)
    :param after: The version after which a new consumer begins, or ``oldest``. (templated)
    :param net: See ChangesSource.
    :param keys: See ChangesSource. (templated)
    :param kwargs: The fields of InsertJob but ``source``, and the parameters of the operator.
    """

    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *HiveAcidChangesOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **HiveAcidChangesOperator.template_fields_renderers,
    }
    custom_operator_name = "@task.hive_acid_changes"
    result_key = "sql"

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        table: str,
        after: str = "0",
        net: bool = False,
        keys: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        names = {field.name for field in dataclasses.fields(InsertJob)} - {"source"}
        described = {name: kwargs.pop(name) for name in names & kwargs.keys()}
        if "target" not in described:
            raise InvalidJob(f"{self.custom_operator_name} lacks target.")
        changed = ChangesSource(table, after=after, net=net, keys=tuple(keys))
        # The query is known when the task runs.
        source = QuerySource(sql=self.custom_operator_name, inputs={_VIEW: changed})
        super().__init__(
            python_callable=python_callable, job=InsertJob(source=source, **described), **kwargs
        )

    def execute(self, context: "Context") -> Any:
        """Call the function, then append."""
        returned = self.call_function(context)
        if not isinstance(returned, str) or not returned.strip():
            error = InvalidJob(
                f"The function of {self.custom_operator_name} has returned {returned!r}.",
                remedy=f"Return a query that reads {_VIEW}.",
            )
            raise task_failure(error)
        self.use_result(returned, context)
        return super().execute(context)

    def complete_job(self, result: str) -> None:
        """Set the query."""
        assert isinstance(self.job, InsertJob)
        assert isinstance(self.job.source, QuerySource)
        source = dataclasses.replace(self.job.source, sql=result)
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
    return decorator_of(_HiveAcidChangesDecoratedOperator, python_callable, kwargs)


# @task.hive_acid_compact: a compaction of the partitions that a function returns


class _HiveAcidCompactDecoratedOperator(FunctionOperator, HiveAcidCompactOperator):
    """Compacts the partitions that a function names."""

    custom_operator_name = "@task.hive_acid_compact"
    result_key = "partitions"

    def __init__(self, **kwargs: Any) -> None:
        # A pool here is Airflow's: only workers have one, and they take no partitions.
        pool = {"pool": kwargs.pop("pool")} if "pool" in kwargs else {}
        described = self.take_fields(kwargs, "partitions")
        super().__init__(job=CompactJob(**described), **pool, **kwargs)

    def execute(self, context: "Context") -> Any:
        """Call the function, then compact."""
        returned = self.call_function(context)
        try:
            partitions = self._partitions(returned)
        except InvalidJob as error:
            raise task_failure(error) from None
        if not partitions:
            raise AirflowSkipException("The function names no partition: there is nothing to do.")
        self.use_result(list(partitions), context)
        return super().execute(context)

    def complete_job(self, result: Sequence[str]) -> None:
        """Set the partitions."""
        self.job = dataclasses.replace(self.job, partitions=tuple(result))

    def _partitions(self, returned: object) -> tuple[str, ...]:
        if isinstance(returned, str) or not isinstance(returned, Sequence):
            raise InvalidJob(
                f"The function of {self.custom_operator_name} has returned {returned!r}.",
                remedy='Return a list of the names of partitions, like ["day=2026-01-01"].',
            )
        if returned:
            require_partition_names(returned)
        return tuple(returned)


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
    return decorator_of(_HiveAcidCompactDecoratedOperator, python_callable, kwargs)
