"""Names, lists, types and notes from outside, through the rules that read them."""

import contextlib
import json
from datetime import UTC, datetime

from hiveacid.errors import HiveAcidError
from hiveacid.jobs import codec
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.orc.format.compression import Codec
from hiveacid.records.history_entries import (
    History,
    Overwrites,
    compaction_entry,
    directories_of,
    later_than,
    traces_of,
    write_entry,
)
from hiveacid.rules.cleaning import ReaderNote
from hiveacid.rules.compaction_policy import CompactionPolicy, auto_compaction_off
from hiveacid.rules.directory import FileStatus, Rules, acid_state, parse_metadata_file
from hiveacid.rules.names import (
    TableRef,
    parse_directory,
    parse_file,
    parse_partition_name,
    partition_name,
    staging_txn,
)
from hiveacid.rules.notes import WriteFacts, merged_writes, taken_over
from hiveacid.rules.schema import TableKind, parse_type
from hiveacid.rules.write_ids import CompactorWriteIdList, ValidTxnList, ValidWriteIdList
from hiveacid.spark.rows.columns import stripe_size
from tests.fuzz.driver import INPUTS, Source, fuzz

WRITE_IDS = (
    "shop.orders:9:3:3,5-7:1,2",
    "null:9223372036854775807:9223372036854775807::",
    "a.b:20:5:5-15:",
    "a.b:5:1-9223372036854775807:1-9223372036854775807:1-2",
    "a.b:30:9223372036854775807:1-9223372036854775807:1-2",
)
DIRECTORIES = (
    "base_0000003", "base_0000003_v0000258", "base_-9223372036854775808", "delta_0000001_0000001_0000",
    "delta_0000001_0000004_v0000012", "delete_delta_0000002_0000002_0000", "delta_0000005_0000005",
    "_tmp_hiveacid_12_x", ".hive-staging", "day=2024", "000000_0", "base_9223372036854775807",
)  # fmt: skip
FILES = ("bucket_00000", "bucket_00001_0", "000000_0", "000001_0_copy_2", "_orc_acid_version",
         "_metadata_acid", "_hiveacid.json", "bucket_00000_flush_length", "HIVE_UNION_SUBDIR_1/000000_0")  # fmt: skip
PARTITIONS = (
    "day=2024-01-01",
    "day=2024/city=S%C3%A3o",
    "a=__HIVE_DEFAULT_PARTITION__",
    "a=%",
    "a=%2",
)
TYPES = (
    "int", "decimal(38,18)", "varchar(20)", "array<map<string,struct<a:int,`b c`:uniontype<int,string>>>>",
    "timestamp with local time zone", "struct<a:" * 40 + "int" + ">" * 40, "array<" * 3000, "double precision",
)  # fmt: skip
TABLES = ("shop.orders", "a.b.c", "Ä.ß", "shop.`orders`")
MARKERS = ('{"thisFileVersion":"0","dataFormat":"compacted"}', '{"thisFileVersion":0}', "[" * 20000)
NOTE = {
    "run_token": "dag/run/task/-1",
    "operation": "merge",
    "write_id": 7,
    "txn_id": 12,
    "time": "2026-01-01T00:00:00+00:00",
    "user": "jane",
    "report": {"rows_inserted": 1, "rows_updated": 0, "rows_deleted": 2, "files": 3, "bytes": 4,
               "seconds": {"read": 1.5}, "partitions": ["day=1"], "tables": [{"table": "shop.orders"}, {}]},
    "format": 1,
    "replaces": ["base_0000003", "delta_0000004_0000004_0000", "000000_0"],
    "proof": {"rows_read": 3, "rows_written": 2, "rows_deleted": 1, "rows_digest": "ab"},
    "seconds": {"write": 2},
    "writes": [{"write_id": 5, "time": "2026-01-01T00:00:00+00:00", "rows_inserted": 3, "seconds": 1}],
}  # fmt: skip
PROPERTIES = {
    "transactional": "true",
    "transactional_properties": "insert_only",
    "bucketing_version": "2",
    "orc.compress": "ZLIB",
    "orc.stripe.size": "67108864",
    "compactorthreshold.hive.compactor.delta.num.threshold": "4",
    "compactorthreshold.hive.compactor.delta.pct.threshold": "0.5",
    "no_auto_compaction": "true",
}
READER_NOTES = (
    '{"high_watermark": 12, "locks": [1, 2]}',
    '{"format": 2, "high_watermark": 12, "locks": [1, 2]}',
    '{"high_watermark": 1e999, "locks": []}',
    "[" * 20000,
)


@INPUTS
def test_write_id_lists(inputs):
    def read(text):
        for kind in (ValidWriteIdList, CompactorWriteIdList, ValidTxnList):
            ids = kind.parse(text if kind is not ValidTxnList else text.partition(":")[2])
            ids.format()
            ids.is_valid(5)
            ids.is_aborted(5)
            if kind is not ValidTxnList:
                ids.range_valid(1, 2**63 - 1)
                ids.range_aborted(1, 2**63 - 1)

    fuzz(read, lambda source: source.text(WRITE_IDS), inputs)


@INPUTS
def test_names_of_directories_files_and_partitions(inputs):
    def read(texts):
        directory, file, partition, table = texts
        for parse, text in (
            (parse_directory, directory),
            (parse_file, file),
            (staging_txn, directory),
            (parse_partition_name, partition),
            (TableRef.parse, table),
        ):
            parse(text)
        spec = parse_partition_name(partition)
        partition_name([key for key, _ in spec], [value for _, value in spec])

    def make(source: Source):
        return [source.text(seeds) for seeds in (DIRECTORIES, FILES, PARTITIONS, TABLES)]

    fuzz(read, make, inputs)


@INPUTS
def test_listings(inputs):
    def read(given):
        paths, write_ids, rules, strict = given
        state = acid_state(
            [FileStatus(path, size) for path, size in paths],
            ValidWriteIdList.parse(write_ids),
            ValidTxnList(300, aborted=(258,)),
            rules=rules,
            strict=strict,
            metadata_acid=lambda _: "compacted",
        )
        sizes = {path.split("/")[0]: 1 for path, _ in paths}
        with contextlib.suppress(HiveAcidError):
            traces_of(directories_of(None, state, sizes), ValidWriteIdList.parse(write_ids), 100)

    def make(source: Source):
        paths = []
        for _ in range(source.random.randrange(12)):
            directory = source.random.choice(DIRECTORIES)
            file = source.random.choice(FILES)
            if source.random.random() < 0.2:
                directory, file = source.text(DIRECTORIES), source.text(FILES)
            paths.append((f"{directory}/{file}", source.random.choice((0, 1, 10**18))))
        rules = source.random.choice(list(Rules))
        return paths, source.random.choice(WRITE_IDS[:3]), rules, source.random.random() < 0.5

    fuzz(read, make, inputs)


@INPUTS
def test_types_of_columns(inputs):
    fuzz(lambda text: str(parse_type(text)), lambda source: source.text(TYPES), inputs)


@INPUTS
def test_markers_and_since_notes(inputs):
    def read(texts):
        with contextlib.suppress(HiveAcidError):
            content = texts[1].encode(errors="surrogatepass")
            codec.read_obligation(ReaderNote, content, "note")
        parse_metadata_file(texts[0])

    fuzz(read, lambda source: (source.text(MARKERS), source.text(READER_NOTES)), inputs)


@INPUTS
def test_notes_of_runs(inputs):
    directories = ["delta_0000007_0000007_0000", "base_0000007_v0000012"]
    now = ValidWriteIdList.parse("shop.orders:9:3:3,5-7:1,2")

    def read(note):
        if not isinstance(note, dict):
            return
        json.dumps(taken_over(dict.fromkeys(directories, note), "shop.orders"))
        list(merged_writes(directories[1], note))
        state = acid_state([FileStatus(f"{name}/", 0) for name in directories], now, None)
        found = directories_of(None, state, dict.fromkeys(directories, 1))
        facts = WriteFacts.of_note(note, 7, "shop.orders")
        entries = [
            compaction_entry(trace, note, Overwrites(found))
            if trace.write_id is None
            else write_entry(trace, facts, now, Overwrites(found))
            for trace in traces_of(found, now, 10)
        ]
        later_than(datetime(2026, 1, 1, tzinfo=UTC), entries, now)
        repr(History("shop.orders", entries)).encode()

    fuzz(read, lambda source: source.json_like(NOTE), inputs)


@INPUTS
def test_properties_of_tables(inputs):
    def read(parameters):
        table = HiveTable.new(TableRef("a", "b"), [HiveColumn("c", "int")], parameters=parameters)
        for rule in (
            lambda: table.bucketing_version,
            lambda: Codec.named(table.orc_codec),
            lambda: stripe_size(table),
            lambda: CompactionPolicy().for_table(parameters),
            lambda: auto_compaction_off(parameters, {}),
            lambda: TableKind.of(parameters),
        ):
            with contextlib.suppress(HiveAcidError):
                rule()

    def make(source: Source):
        changed = {name: source.text([value]) for name, value in PROPERTIES.items()}
        return {**PROPERTIES, **changed}

    fuzz(read, make, inputs)
