"""A public reader that sleeps at any place returns the rows of its snapshot, or raises an error."""

import itertools

import pytest

from hiveacid.metastore.client import MetastoreClient
from tests.fakes.metastore import FakeMetastore
from tests.faults.operations import Tables
from tests.faults.readers import READERS, SPARK_READERS, Others, Scene
from tests.samples import random_of_commit

_NUMBERS = itertools.count(1)
_FAKES = ["fake 4.0.1", "fake 3.1.3"]
_REAL = {"4.0.1": "hms4", "3.1.3": "hms3"}


@pytest.fixture
def metastore(request, tmp_path):
    """A fake metastore of the test's own, or a real one."""
    if request.param in _FAKES:
        with FakeMetastore(request.param.rpartition(" ")[2], directory=tmp_path / "hms") as fake:
            yield fake
    else:
        yield request.getfixturevalue(_REAL[request.param])


@pytest.fixture
def wrong_rows(metastore, tmp_path):
    """Return the wrong results of a reader, by the places at which it sleeps."""
    client, databases = MetastoreClient(metastore.options), []

    def scene(reader, spark):
        number = next(_NUMBERS)
        folder = tmp_path / str(number)
        folder.mkdir()
        is_fake = isinstance(metastore, FakeMetastore)
        # Version 3 does not distinguish two creations within a second.
        let_age = metastore.let_tables_age if is_fake else lambda: None
        databases.append(f"readers_{number}")
        tables = Tables(client, databases[-1], folder)
        return Scene(client, tables, reader, spark=spark, let_age=let_age)

    def wrong_rows(name, reader, others, *, most=None, spark=None):
        places = range(scene(reader, spark).count())
        if most is not None:
            random = random_of_commit(f"{name} {others}")
            places = random.sample(places, min(len(places), most))
        judged = {place: scene(reader, spark).judge(place, others) for place in places}
        return {place: wrong for place, wrong in judged.items() if wrong is not None}

    yield wrong_rows
    for database in databases:
        client.drop_database(database, cascade=True)
    client.close()


@pytest.mark.parametrize("others", Others)
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("metastore", _FAKES, indirect=True)
@pytest.mark.sampled(30)
def test_a_reader_that_sleeps_returns_no_wrong_rows(metastore, name, others, wrong_rows):
    assert wrong_rows(name, READERS[name], others, most=2) == {}


@pytest.mark.parametrize("others", Others)
@pytest.mark.parametrize("name", SPARK_READERS)
@pytest.mark.parametrize("metastore", _FAKES, indirect=True)
@pytest.mark.sampled(6)
def test_a_reader_with_spark_that_sleeps_returns_no_wrong_rows(
    metastore, name, others, wrong_rows, spark
):
    assert wrong_rows(name, SPARK_READERS[name], others, most=2, spark=spark) == {}


@pytest.mark.parametrize("others", Others)
@pytest.mark.parametrize("name", ["TableScan.to_arrow", "QueryConnection", "keys of an erasure"])
@pytest.mark.server
@pytest.mark.parametrize("metastore", _REAL, indirect=True)
def test_a_reader_that_sleeps_at_a_real_metastore_returns_no_wrong_rows(
    metastore, name, others, wrong_rows
):
    assert wrong_rows(name, READERS[name], others, most=3) == {}


@pytest.mark.faults
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("others", Others)
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("metastore", _FAKES, indirect=True)
def test_a_reader_that_sleeps_at_every_place(metastore, name, others, wrong_rows):
    assert wrong_rows(name, READERS[name], others) == {}


@pytest.mark.faults
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("others", Others)
@pytest.mark.parametrize("name", SPARK_READERS)
@pytest.mark.parametrize("metastore", _FAKES, indirect=True)
def test_a_reader_with_spark_that_sleeps_at_every_place(metastore, name, others, wrong_rows, spark):
    assert wrong_rows(name, SPARK_READERS[name], others, spark=spark) == {}
