"""Records in folders that others may write: the texts in them open nothing outside of the limits."""

from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.erasure.requests import Eraser
from hiveacid.errors import AccessRefused
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.erasures import ErasureFolder
from hiveacid.rules.location import Location
from hiveacid.rules.names import TableRef
from tests.erasure.persons import Warehouse

FAKE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


@FAKE4
def test_a_file_in_a_record_of_an_erasure_leads_to_no_other_host(
    client: MetastoreClient, database: str, tmp_path: Path
):
    warehouse = Warehouse(client, database, tmp_path)
    warehouse.fill("plain", 30)
    with Transaction(client, reads=[TableRef.parse(warehouse.t)]):
        warehouse.erase()
    record = ErasureFolder(Location(f"file:{warehouse.requests}"), None).open("r1")
    found = record.read()
    assert found is not None
    number, erasure = found
    assert erasure.held
    moved = tuple(replace(file, path="hdfs://127.0.0.1:1/t/f") for file in erasure.files)
    record.write(number + 1, replace(erasure, files=moved))
    with MetastoreClient(replace(client.options, allowed_locations="file")) as limited:
        eraser = Eraser(limited, f"file:{warehouse.requests}")
        for work in (eraser.delays, eraser.advance):
            with pytest.raises(AccessRefused, match=r"'hdfs://127\.0\.0\.1:1/t(/f)?' is not among"):
                work("r1")
