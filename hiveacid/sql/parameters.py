"""The parameters of a text of SQL, given to the jobs of its statements."""

from dataclasses import replace
from typing import TypeVar

from hiveacid.errors import SqlError
from hiveacid.jobs.definitions.create_table_as import CreateTableAsJob
from hiveacid.jobs.field_checks import awaits_rendering
from hiveacid.jobs.parameters import Parameters
from hiveacid.jobs.sources import QuerySource
from hiveacid.jobs.transaction_job import TransactionJob
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, UpdateJob
from hiveacid.rules.sql_tokens import parameter_places, parameters_of
from hiveacid.sql.questions import Select
from hiveacid.sql.statement import SqlStatement

StepT = TypeVar("StepT")


def require_used(text: str, params: Parameters) -> None:
    """Refuse values that no statement of a text uses.

    Raises:
        SqlError: A value is unused.
    """
    unused = sorted(params.keys() - parameters_of(text))
    if unused and not awaits_rendering(text):
        raise SqlError(
            f"The parameter {unused[0]} is not used.",
            remedy=f"Write :{unused[0]} in the SQL, outside of quotes, or remove the value.",
        )


def require_bound(statement: SqlStatement) -> None:
    """Refuse a parameter of a statement without a value.

    Raises:
        SqlError: A value is missing; the message contains the position of the parameter.
    """
    if awaits_rendering(statement.text):
        return
    start = statement.tokens[0].start
    for place, name in parameter_places(statement.text[start : statement.tokens[-1].end + 1]):
        if name not in statement.params:
            statement.refuse(
                start + place,
                f"The parameter :{name} has no value.",
                f"Add a value with the name {name} to the parameters.",
            )


def with_parameters(step: StepT, params: Parameters, trusted: bool) -> StepT:
    """A job or a question with the values of its own parameters.

    Args:
        step: The job or the question.
        params: The values of the whole text.
        trusted: Whether the text may run scripts, call Java and read files by their paths.
    """
    changed: object = step
    match step:
        case TransactionJob():
            each = (with_parameters(job, params, trusted) for job in step.statements)
            changed = replace(step, statements=tuple(each))
        case Select():
            changed = replace(step, query=_query(step.query, params, trusted))
        case InsertJob() | CreateTableAsJob() | MergeJob() if isinstance(step.source, QuerySource):
            changed = replace(step, source=_query(step.source, params, trusted))
    if isinstance(changed, UpdateJob | DeleteJob | MergeJob):
        own = _used(changed.expressions, params)
        changed = replace(changed, params=own, trusted=trusted)
    return changed  # type: ignore[return-value]


def _query(query: QuerySource, params: Parameters, trusted: bool) -> QuerySource:
    own = _used((query.sql, *query.common.values()), params)
    return replace(query, params=own, trusted=trusted)


def _used(texts: tuple[str, ...], params: Parameters) -> Parameters:
    used = {name for text in texts for name in parameters_of(text)}
    return {name: value for name, value in params.items() if name in used}
