"""Jobs in statements of Spark's SQL."""

import pytest

from hiveacid.errors import SqlError
from hiveacid.jobs import UpdateJob
from hiveacid.jobs.job_json import from_json
from hiveacid.parser.calls import Call, call_text, read_call

JOB = UpdateJob(
    target="d.t",
    set={"v": r"""concat('it''s \n "x" ${env:HOME} é ; -- ', '\\d')"""},
    where="v = :v",
    params={"v": "a\n'$b\\"},
)


def test_a_job_survives_its_statement() -> None:
    text = call_text(JOB)
    # Spark replaces ${…}, and ends a text at a quote.
    assert "$" not in text
    assert text.count("'") == 2
    call = read_call(text)
    assert call is not None
    assert call.for_program
    assert from_json(call.job) == JOB


@pytest.mark.parametrize(
    "text",
    [
        "CALL hiveacid.run('{}')",
        "/* now */ call HiveAcid.Run ( '{}' ) ;",
        'CALL hiveacid.run("{}")',
    ],
)
def test_people_write_a_call(text: str) -> None:
    assert read_call(text) == Call("{}")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'call hiveacid.run'",
        "CALL catalog.system.run('{}')",
        "CALL hiveacid_2.run('{}')",
        "CALL hiveacid.run('{}",
    ],
)
def test_other_statements_are_none(text: str) -> None:
    assert read_call(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "CALL hiveacid.start('{}')",
        "CALL hiveacid.run({})",
        "CALL hiveacid.run('{}', '{}')",
        "CALL hiveacid.run('{}'); SELECT 1",
        "CALL hiveacid",
    ],
)
def test_a_malformed_call_is_refused(text: str) -> None:
    with pytest.raises(SqlError, match="Line 1, column"):
        read_call(text)
