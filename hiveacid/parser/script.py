"""Reading a text of SQL statements into jobs: the entry to this folder."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hiveacid.errors import InvalidJob, SparkNeeded, SqlError
from hiveacid.jobs.definition_jobs import CatalogJob, CreateTableAsJob, CreateTableJob
from hiveacid.jobs.fields import Parameters, awaits_rendering
from hiveacid.jobs.job import ScriptedJob
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.run_options import Place
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.sources import QuerySource
from hiveacid.jobs.write_jobs import (
    DeleteJob,
    InsertJob,
    MergeJob,
    RowJob,
    TransactionJob,
    UpdateJob,
)
from hiveacid.parser.changes import delete_job, merge_job, update_job
from hiveacid.parser.constraint_rules import require_supported
from hiveacid.parser.constraints import without_constraints
from hiveacid.parser.inserts import insert_job, multi_insert_job
from hiveacid.parser.questions import (
    DATABASE,
    Explain,
    Question,
    Select,
    is_question,
    question_of,
    select_of,
)
from hiveacid.parser.statement import TANGLED, UNTANGLE, SqlStatement, tokens_of
from hiveacid.parser.statements import reader_of, refuse_unknown
from hiveacid.parser.tables import create_job
from hiveacid.parser.words import Words, keyword_of
from hiveacid.rules.constraints import Constraint
from hiveacid.rules.sql_tokens import parameter_places, parameters_of

# The parameters of a text of SQL, given to the jobs of its statements


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
    completed: object = step
    match step:
        case TransactionJob():
            jobs = (with_parameters(job, params, trusted) for job in step.statements)
            completed = replace(step, statements=tuple(jobs))
        case Select():
            completed = replace(step, query=_query(step.query, params, trusted))
        case InsertJob() | CreateTableAsJob() | MergeJob() if isinstance(step.source, QuerySource):
            completed = replace(step, source=_query(step.source, params, trusted))
    if isinstance(completed, UpdateJob | DeleteJob | MergeJob):
        used_params = _used(completed.expressions, params)
        completed = replace(completed, params=used_params, trusted=trusted)
    return completed  # type: ignore[return-value]


def _query(query: QuerySource, params: Parameters, trusted: bool) -> QuerySource:
    used_params = _used((query.sql, *query.common.values()), params)
    return replace(query, params=used_params, trusted=trusted)


def _used(texts: tuple[str, ...], params: Parameters) -> Parameters:
    names = {name for text in texts for name in parameters_of(text)}
    return {name: value for name, value in params.items() if name in names}


def placed(steps: Iterable[StepT], run_in: Place | str) -> tuple[StepT, ...]:
    """Return jobs and questions whose changes run in a process.

    Args:
        steps: The jobs and the questions.
        run_in: See UpdateJob and CompactJob.

    Raises:
        SparkNeeded: ``run_in`` is "worker", and a statement always runs on Spark.
    """
    return tuple(_placed(step, run_in) for step in steps)


def _placed(step: StepT, run_in: Place | str) -> StepT:
    placed_step: object = step
    match step:
        case Explain():
            placed_step = replace(step, job=_placed(step.job, run_in))
        case RowJob() | TransactionJob() | CompactJob():
            placed_step = replace(step, run_in=run_in)
        case ScriptedJob() if run_in == "worker" and not isinstance(step, CatalogJob):
            raise SparkNeeded(f"The statement {step.tag} always runs on Spark.")
    return placed_step  # type: ignore[return-value]


_READ: dict[type[exp.Expr], Callable[..., ScriptedJob]] = {
    exp.Insert: insert_job,
    exp.MultitableInserts: multi_insert_job,
    exp.Update: update_job,
    exp.Delete: delete_job,
    exp.Merge: merge_job,
    exp.Create: create_job,
}


def to_script(
    text: str,
    database: str = "default",
    params: Parameters | None = None,
    trusted: bool = False,
    all_rows: bool = False,
) -> ScriptJob:
    """Make a job of the statements in a text, which are separated by semicolons.

    Args:
        text: Statements as Hive and Spark have them.
        database: The database of tables that are named without one.
        params: The values of parameters: ``{"id": 7}`` for ``:id``.
        trusted: Whether the text may run scripts, call Java and read files by their paths.
        all_rows: Whether UPDATE and DELETE without WHERE change all rows; otherwise they are errors.

    Raises:
        SqlError: A statement is invalid or unsupported; the message contains its position.
        InvalidJob: The text has no statement.
    """
    return ScriptJob.of(to_jobs(text, database, params, trusted, all_rows))


def to_steps(
    text: str,
    database: str = "default",
    params: Parameters | None = None,
    trusted: bool = False,
    all_rows: bool = False,
) -> tuple[ScriptedJob | Question, ...]:
    """Return the job or the question of each statement in a text.

    Args:
        text: Statements as Hive and Spark have them, separated by semicolons.
        database: The database of tables that are named without one.
        params: The values of parameters: ``{"id": 7}`` for ``:id``.
        trusted: Whether the text may run scripts, call Java and read files by their paths.
        all_rows: Whether UPDATE and DELETE without WHERE change all rows; otherwise they are errors.

    Raises:
        SqlError: A statement is invalid or unsupported; the message contains its position.
    """
    return tuple(step for _, step in _steps(text, database, params, trusted, all_rows))


def _steps(
    text: str, database: str, params: Parameters | None, trusted: bool, all_rows: bool
) -> Iterator[tuple[SqlStatement, ScriptedJob | Question]]:
    for statement in statements(text, database, params, trusted, all_rows):
        if not is_use(statement):
            yield statement, step_of(statement)


def to_jobs(
    text: str,
    database: str = "default",
    params: Parameters | None = None,
    trusted: bool = False,
    all_rows: bool = False,
) -> tuple[ScriptedJob, ...]:
    """Return the job of each statement in a text, checked as far as possible without a server.

    Args:
        text: Statements as Hive and Spark have them, separated by semicolons.
        database: The database of tables that are named without one.
        params: The values of parameters: ``{"id": 7}`` for ``:id``.
        trusted: Whether the text may run scripts, call Java and read files by their paths.
        all_rows: Whether UPDATE and DELETE without WHERE change all rows; otherwise they are errors.

    Raises:
        SqlError: A statement is invalid or unsupported; the message contains its position.
    """
    jobs = []
    for statement, step in _steps(text, database, params, trusted, all_rows):
        if not isinstance(step, ScriptedJob):
            statement.refuse(
                None, "It only asks something.", "Let `hiveacid sql` answer it: tasks only work."
            )
        jobs.append(step)
    return tuple(jobs)


def step_of(statement: SqlStatement) -> ScriptedJob | Question:
    """Return the job or the question of a statement.

    Raises:
        SqlError: The statement is invalid or unsupported; the message contains its position.
    """
    statement.refuse_names_in_double_quotes()
    require_bound(statement)
    try:
        if is_question(statement):
            return with_parameters(question_of(statement), statement.params, statement.trusted)
        if keyword_of(statement.tokens[0]) == "EXPLAIN":
            return _explain(statement)
        step = with_parameters(_step(statement), statement.params, statement.trusted)
        if isinstance(step, ScriptedJob):
            step.validate()
        if isinstance(step, CreateTableJob):
            require_supported(step)
        return step
    except RecursionError:
        statement.refuse(None, f"It {TANGLED}", UNTANGLE)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        # The parser accepts statements with missing or misplaced parts.
        raise statement.error(None, "It cannot be read; a part of it may be missing.") from error
    except InvalidJob as error:
        raise statement.error(None, error.what, error.remedy) from error


def _explain(statement: SqlStatement) -> Explain:
    if len(statement.tokens) == 1:
        statement.refuse(None, "EXPLAIN needs a statement.")
    # An explanation changes no row.
    inner = replace(statement, tokens=statement.tokens[1:], all_rows=True)
    explained = step_of(inner)
    if isinstance(explained, Explain):
        statement.refuse(statement.tokens[1], "EXPLAIN of EXPLAIN is not supported.")
    return Explain(explained)


def _step(statement: SqlStatement) -> ScriptedJob | Question:
    if (read := reader_of(statement)) is not None:
        return read(statement)
    constraints: Sequence[Constraint] = ()
    if keyword_of(statement.tokens[0]) == "CREATE":
        statement, constraints = without_constraints(statement)
    tree = statement.parse()
    for kind, read_tree in _READ.items():
        if isinstance(tree, kind):
            job = read_tree(statement, tree)
            if not constraints:
                return job
            if not isinstance(job, CreateTableJob):
                statement.refuse(None, "Only a table with columns of its own has constraints.")
            return replace(job, constraints=constraints)
    if isinstance(tree, exp.Query):
        return select_of(statement, tree)
    refuse_unknown(statement)


def statements(
    text: str,
    database: str = "default",
    params: Parameters | None = None,
    trusted: bool = False,
    all_rows: bool = False,
) -> Iterator[SqlStatement]:
    """Yield the statements of a text; each has the database of the last USE up to it."""
    params = params or {}
    require_used(text, params)
    for tokens in _split(tokens_of(text)):
        statement = SqlStatement(text, _checked(tokens, text), database, params, trusted, all_rows)
        if is_use(statement):
            database = _database_to_use(statement)
            statement = replace(statement, database=database)
        yield statement


def require_one(text: str) -> None:
    """Refuse a text that does not have exactly one statement.

    Raises:
        SqlError: It has another number of them; the message contains the position of the second one.
    """
    statement_tokens = [*_split(tokens_of(text))]
    if not statement_tokens:
        raise SqlError("The text has no statement.")
    if len(statement_tokens) > 1:
        raise SqlStatement(text, statement_tokens[1], "").error(
            statement_tokens[1][0],
            "Another statement begins there, and one execution runs one statement.",
            "Run each statement by itself. Do not write names or values from elsewhere into SQL.",
        )


def is_use(statement: SqlStatement) -> bool:
    """Whether a statement is USE."""
    return keyword_of(statement.tokens[0]) == "USE"


def _split(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Split tokens at semicolons, without empty statements."""
    for is_end, statement in groupby(tokens, lambda t: t.token_type is TokenType.SEMICOLON):
        if not is_end:
            yield [*statement]


def _database_to_use(statement: SqlStatement) -> str:
    """USE [DATABASE] name: where tables are that later statements name without a database."""
    words = Words(statement)
    words.expect("USE")
    if len(statement.tokens) > 2:
        words.take_one_of(DATABASE)
    database = words.name()
    words.end()
    return database.lower()


def _checked(tokens: list[Token], text: str) -> list[Token]:
    """Refuse two texts without a blank in between, which Hive and Spark read in two ways."""
    for one, successor in pairwise(tokens):
        touching = successor.start == one.end + 1
        if touching and one.token_type is successor.token_type is TokenType.STRING:
            raise SqlStatement(text, tokens, "").error(
                successor,
                "Hive reads '' as the end of one text and the start of another, Spark as a quote.",
                "Write \\' for a quote.",
            )
    words = [keyword_of(token) for token in tokens[:3]]
    if words[:1] == ["CREATE"] and words[2:] == ["TABLE"] and words[1] in _KINDS_OF_TABLES:
        # Hive 4's keywords for the kind of tables that are always created here.
        return [tokens[0], *tokens[2:]]
    return tokens


_KINDS_OF_TABLES = ("MANAGED", "TRANSACTIONAL")
