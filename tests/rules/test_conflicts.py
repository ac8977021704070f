"""The matrix of writers that overlap, cell by cell."""

import itertools
from pathlib import Path

import pytest

from hiveacid.rules.locks import (
    KIND_NAMES,
    Finished,
    Operation,
    WriteKind,
    describe_refusal,
    describe_shared_rows,
    kind_of,
    matrix_rows,
    refusing,
    succeeds,
)

OVERWRITE, APPEND, CHANGE, MINOR, MAJOR = WriteKind
BOTH, FIRST = True, False

# Written down once more, line by line as it is published; those who commit first are on the left.
PUBLISHED = {
    #          overwrite append change minor  major
    OVERWRITE: (BOTH, FIRST, FIRST, FIRST, FIRST),
    APPEND: (BOTH, FIRST, FIRST, BOTH, FIRST),
    CHANGE: (BOTH, FIRST, FIRST, BOTH, FIRST),
    MINOR: (BOTH, BOTH, BOTH, FIRST, BOTH),
    MAJOR: (BOTH, BOTH, BOTH, FIRST, FIRST),
}
CELLS = [
    pytest.param(first, later, both, id=f"{first}_before_{later}")
    for first, line in PUBLISHED.items()
    for later, both in zip(WriteKind, line, strict=True)
]


def finished(kind, partition=None, what="write id 7", by="user ann"):
    return Finished(kind, partition, what, by)


@pytest.mark.parametrize(("first", "later", "both"), CELLS)
def test_a_cell(first, later, both):
    assert succeeds(first, later) is both
    entry = finished(first)
    assert refusing(later, [None], [entry]) == ([] if both else [entry])


@pytest.mark.parametrize(("first", "later"), [*itertools.product(WriteKind, repeat=2)])
def test_writers_of_different_partitions_do_not_meet(first, later):
    assert refusing(later, ["p=1"], [finished(first, "p=2")]) == []


def test_of_several_partitions_those_that_both_write_count():
    entries = [finished(APPEND, f"p={number}") for number in range(4)]
    assert refusing(CHANGE, {"p=1", "p=2", "p=9"}, entries) == entries[1:3]


def test_every_operation_that_writes_has_a_kind():
    kinds = {operation: kind_of(operation) for operation in {*Operation} - {Operation.SELECT}}
    assert {kinds[each] for each in (Operation.UPDATE, Operation.DELETE, Operation.MERGE)} == {
        CHANGE
    }
    assert (kinds[Operation.INSERT], kinds[Operation.OVERWRITE]) == (APPEND, OVERWRITE)


def test_a_refusal_names_the_cells_both_writers_and_the_partitions():
    entries = [
        finished(APPEND, "p=1", "write id 7", "user ann, Airflow task load of DAG orders, run r"),
        finished(OVERWRITE, "p=2", "write id 8", "another engine, which leaves no note"),
        *[finished(APPEND, f"p={number}", f"write id {number}") for number in range(10, 13)],
    ]
    text = describe_refusal("db.t", CHANGE, "user bob, run nightly", entries)
    assert text == (
        "db.t: update, delete or merge of user bob, run nightly was overtaken, and the policy strict"
        " lets only the first of both succeed (append before change, overwrite before change)."
        " Committed since it began: append (write id 7 in p=1, user ann, Airflow task load of DAG"
        " orders, run r); overwrite or truncate (write id 8 in p=2, another engine, which leaves no"
        " note); append (write id 10 in p=10, user ann); and 2 more."
    )


def test_a_refusal_by_rows_names_the_rows_and_the_other_writer():
    what = "2 of the rows that it changes"
    text = describe_shared_rows("db.t", CHANGE, "user bob", what, [finished(CHANGE, "p=1")])
    assert text == (
        "db.t: update, delete or merge of user bob was overtaken: others have written 2 of the rows"
        " that it changes. Committed since it began: update, delete or merge (write id 7 in p=1,"
        " user ann)."
    )
    assert describe_shared_rows("db.t", CHANGE, "user bob", what, []).endswith(
        "Committed since it began: writes that were removed again."
    )


def test_the_printed_matrix_has_all_cells():
    (corner, *head), *lines = matrix_rows()
    assert corner == "committed first"
    assert head == [f"then {kind}" for kind in WriteKind]
    assert [line[0] for line in lines] == [KIND_NAMES[kind] for kind in WriteKind]
    assert [[cell == "both" for cell in line[1:]] for line in lines] == [
        list(line) for line in PUBLISHED.values()
    ]


def test_the_docs_show_this_very_matrix():
    page = (Path(__file__).parents[2] / "docs" / "conflicts.md").read_text()
    head, *lines = matrix_rows()
    table = [head, ["---"] * len(head), *lines]
    assert "\n".join(f"| {' | '.join(line)} |" for line in table) in page
