"""Quarantine: rows of a source that violate checks are written into another table.

A job with a quarantine is two statements of one transaction: the job for the rows that satisfy the
checks, and an insert of the others. Both read one evaluation of the source.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hiveacid.errors import InvalidJob
from hiveacid.jobs.checks import QUARANTINE, Check, RowCheck
from hiveacid.jobs.fields import ParameterValue
from hiveacid.jobs.sources import QuerySource, Source
from hiveacid.rules.sql_tokens import parameter_places

# The view of the whole source, and the additional columns of the other table.
_WHOLE = "checked_source"
FAILED_CHECKS, RUN = "failed_checks", "run"


def quarantining(checks: Sequence[Check]) -> list[RowCheck]:
    """Return the checks that divide the rows of a source."""
    return [c for c in checks if c.severity == QUARANTINE and isinstance(c, RowCheck)]


def divided(
    source: Source, checks: Sequence[RowCheck], run: str | None
) -> tuple[QuerySource, QuerySource]:
    """Divide a source into the rows that satisfy checks, and the others.

    Args:
        source: The source.
        checks: The checks, whose columns are those of the source.
        run: The name of the run, for the column ``run`` of the other rows.
    """
    params: dict[str, ParameterValue] = {}
    violated = []
    for number, check in enumerate(checks):
        text, check_params = _renamed(f"NOT ({check.condition})", check.values, f"check_{number}")
        # A null does not violate a check.
        violated.append(f"coalesce({text}, false)")
        params |= check_params
    labels = {f"label_{number}": check.label for number, check in enumerate(checks)}
    failed_labels = ", ".join(
        f"CASE WHEN {text} THEN :{label} END" for text, label in zip(violated, labels, strict=True)
    )
    bad = " OR ".join(violated)
    if isinstance(source, QuerySource):
        whole = replace(source, common={**source.common, _WHOLE: source.sql})
    else:
        whole = QuerySource("", {_WHOLE: source})
    if clash := whole.params.keys() & {*params, *labels, "quarantine_run"}:
        raise InvalidJob(
            f"The query of the source has the parameter {min(clash)!r}, which the quarantine uses.",
            remedy="Give it another name.",
        )
    params |= whole.params
    failed_query = (
        f"SELECT *, concat_ws('; ', {failed_labels}) AS {FAILED_CHECKS}, "
        f"CAST(:quarantine_run AS STRING) AS {RUN} FROM {_WHOLE} WHERE {bad}"
    )
    return (
        replace(whole, sql=f"SELECT * FROM {_WHOLE} WHERE NOT ({bad})", params=params),
        replace(whole, sql=failed_query, params={**params, **labels, "quarantine_run": run}),
    )


def _renamed(
    text: str, params: Mapping[str, ParameterValue], prefix: str
) -> tuple[str, dict[str, ParameterValue]]:
    """Give the parameters of a text names of their own."""
    for place, name in reversed(parameter_places(text)):
        end = place + 1 + len(name)
        text = f"{text[:place]}:{prefix}_{name}{text[end:]}"
    return text, {f"{prefix}_{name}": value for name, value in params.items()}
