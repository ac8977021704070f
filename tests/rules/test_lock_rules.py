import pytest

from hiveacid.errors import InvalidJob
from hiveacid.rules.locks import (
    DataOperation,
    LockLevel,
    LockType,
    Operation,
    blocks,
    lock_components,
    read_lock_components,
)
from hiveacid.rules.names import TableRef

OLD, NEW = False, True  # Without and with EXCL_WRITE.
ORDERS = TableRef("sales", "orders")


@pytest.mark.parametrize(
    ("operation", "on_hms3", "on_hms4", "registered"),
    [
        (Operation.SELECT, LockType.SHARED_READ, LockType.SHARED_READ, DataOperation.SELECT),
        (Operation.INSERT, LockType.SHARED_READ, LockType.SHARED_READ, DataOperation.INSERT),
        (Operation.OVERWRITE, LockType.EXCLUSIVE, LockType.EXCLUSIVE, DataOperation.UPDATE),
        (Operation.UPDATE, LockType.SHARED_WRITE, LockType.EXCL_WRITE, DataOperation.UPDATE),
        (Operation.DELETE, LockType.SHARED_WRITE, LockType.EXCL_WRITE, DataOperation.UPDATE),
        (Operation.MERGE, LockType.SHARED_WRITE, LockType.EXCL_WRITE, DataOperation.UPDATE),
    ],
)
def test_each_operation_takes_hives_lock(operation, on_hms3, on_hms4, registered):
    for version, type_ in ((OLD, on_hms3), (NEW, on_hms4)):
        (component,) = lock_components(version, operation, ORDERS, partitioned=False)
        assert (component.type, component.operation) == (type_, registered)
        assert (component.database, component.table) == ("sales", "orders")
        assert component.is_transactional


@pytest.mark.parametrize("operation", [op for op in Operation if op is not Operation.SELECT])
def test_known_partitions_are_locked_alone_and_unknown_ones_by_the_table(operation):
    known = lock_components(NEW, operation, ORDERS, True, ["d=1", "d=2"])
    assert [(c.level, c.partition) for c in known] == [
        (LockLevel.PARTITION, "d=1"),
        (LockLevel.PARTITION, "d=2"),
    ]
    assert not any(c.is_dynamic_partition_write for c in known)
    (unknown,) = lock_components(NEW, operation, ORDERS, True)
    assert (unknown.level, unknown.partition) == (LockLevel.TABLE, None)
    assert unknown.is_dynamic_partition_write
    (whole,) = lock_components(NEW, operation, ORDERS, False)
    assert (whole.level, whole.is_dynamic_partition_write) == (LockLevel.TABLE, False)


def test_a_read_of_a_plain_table_is_an_error():
    (component,) = read_lock_components(ORDERS, transactional=False)
    assert not component.is_transactional
    assert not component.is_dynamic_partition_write


def test_lock_types_block_others():
    order = [LockType.SHARED_READ, LockType.SHARED_WRITE, LockType.EXCL_WRITE, LockType.EXCLUSIVE]
    rows = {
        asked: "".join("x" if blocks(NEW, held, asked) else "." for held in order)
        for asked in order
    }
    assert list(rows.values()) == ["...x", "..xx", ".xxx", "xxxx"]
    order.remove(LockType.EXCL_WRITE)
    rows = {
        asked: "".join("x" if blocks(OLD, held, asked) else "." for held in order)
        for asked in order
    }
    assert list(rows.values()) == ["..x", ".xx", "xxx"]


@pytest.mark.parametrize("version", [OLD, NEW])
def test_two_changes_exclude_each_other_and_appends_exclude_no_change(version):
    def type_of(operation):
        return lock_components(version, operation, ORDERS, False)[0].type

    merge, append = type_of(Operation.MERGE), type_of(Operation.INSERT)
    overwrite = type_of(Operation.OVERWRITE)
    assert blocks(version, merge, merge)
    assert not blocks(version, append, merge)
    assert not blocks(version, merge, append)
    assert not blocks(version, append, append)
    assert blocks(version, append, overwrite)
    assert blocks(version, overwrite, append)


@pytest.mark.parametrize("text", ["sales.orders", "Sales.ORDERS"])
def test_table_names_are_kept_in_lower_case(text):
    assert TableRef.parse(text) == ORDERS
    assert TableRef.parse(text).full_name == str(ORDERS) == "sales.orders"


@pytest.mark.parametrize("text", ["sälès.日本", "sales.or ders", "sales.a/b", "sales.it's=%"])
def test_unusual_table_names_are_names(text):
    assert TableRef.parse(text).full_name == text


@pytest.mark.parametrize(
    "text", ["", "orders", ".orders", "sales.", "a.b.c", "`a`.`b`", "a. b", "a.b\n", "sales.."]
)
def test_other_texts_are_no_table_names(text):
    with pytest.raises(InvalidJob, match="not the name of a table"):
        TableRef.parse(text)
