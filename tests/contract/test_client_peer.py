"""An independent client of the same servers gets the same results as ours. It knows Hive 2's
interface only."""

from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore import ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import TxnLiveness
from hiveacid.rules.locks import Operation, lock_components
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind

COLUMNS = (HiveColumn("id", "bigint", "the key"), HiveColumn("name", "varchar(20)"))
DAY = (HiveColumn("day", "string"),)


def peer_of(metastore: EmbeddedMetastore) -> HMSClient:
    port = int(metastore.uri.rpartition(":")[2])
    return HMSClient(TBinaryProtocol(TBufferedTransport(TSocket("127.0.0.1", port))))


def test_a_peer_sees_our_locks_and_we_see_its_transactions(
    client: MetastoreClient, database: str, hms: EmbeddedMetastore
) -> None:
    table = TableRef(database, "t")
    client.create_table(HiveTable.new(table, COLUMNS, partition_keys=DAY))
    txn = client.open_txn("alice", "here", None)
    components = lock_components(
        client.features.has_excl_write, Operation.UPDATE, table, True, ["day=a"]
    )
    lock = client.lock(components, txn, "alice", "here", None)
    with peer_of(hms) as peer:
        (seen,) = peer.show_locks(ttypes.ShowLocksRequest(dbname=database)).locks
        assert (seen.lockid, seen.txnid, seen.partname) == (lock.lock_id, txn, "day=a")
        opened = peer.open_txns(ttypes.OpenTxnRequest(1, "bob", "there")).txn_ids[0]
    assert client.heartbeat(opened) is TxnLiveness.OPEN
    for open_txn in (txn, opened):
        client.abort_txn(open_txn)


def test_a_peer_of_version_3_reads_our_tables_and_we_read_its(hms3: EmbeddedMetastore) -> None:
    with MetastoreClient(hms3.options) as client, peer_of(hms3) as peer:
        ours = TableRef("default", "ours")
        client.create_table(HiveTable.new(ours, COLUMNS, partition_keys=DAY, parameters={"a": "b"}))
        client.add_partitions(
            ours, [HivePartition.new(client.get_table(ours), [day]) for day in ("x/y", "z")]
        )
        seen = peer.get_table("default", "ours")
        assert [(column.name, column.type) for column in seen.sd.cols] == [
            (column.name, column.type) for column in COLUMNS
        ]
        assert seen.parameters == client.get_table(ours).parameters
        assert peer.get_partition_names("default", "ours", -1) == ["day=x%2Fy", "day=z"]

        seen.tableName, seen.sd.location, seen.sd.numBuckets = "theirs", None, 3
        seen.sd.bucketCols, seen.partitionKeys = ["name"], []
        peer.create_table(seen)
        theirs = client.get_table(TableRef("default", "theirs"))
        assert (theirs.kind, theirs.columns) == (TableKind.FULL_ACID, COLUMNS)
        assert (theirs.num_buckets, theirs.bucket_columns) == (3, ("name",))
        for name in ("ours", "theirs"):
            client.drop_table(TableRef("default", name))
