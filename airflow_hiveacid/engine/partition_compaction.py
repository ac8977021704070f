"""The compaction of one partition, or of a table without partitions, in its own transaction."""

import json
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from pyspark.sql import SparkSession  # noqa: TID253

from airflow_hiveacid.acid.compaction import CompactionPlan, CompactionType, plan_compaction
from airflow_hiveacid.acid.directory import AcidDirectory, Rules
from airflow_hiveacid.acid.errors import (
    BeyondArrow,
    CorruptFile,
    HiveAcidError,
    OutOfOrder,
    StorageError,
    UnsupportedTable,
)
from airflow_hiveacid.acid.locks import MetastoreVersion
from airflow_hiveacid.acid.names import (
    ACID_VERSION_FILE,
    METADATA_FILE,
    SIDECAR_FILE,
    STAGING_PREFIX,
    Base,
    BucketFile,
    Delta,
)
from airflow_hiveacid.acid.schema import row_struct
from airflow_hiveacid.acid.write_ids import Range
from airflow_hiveacid.engine.bucket_sorting import sort_bucket
from airflow_hiveacid.engine.compact_tasks import (
    AssembleWork,
    BucketInputs,
    CopiedBucket,
    DeleteWork,
    EncodedPart,
    EncodeWork,
    InputFile,
    assemble_bucket,
    caught,
    encode_piece,
    merge_deletes,
    plan_bucket,
)
from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.session import cancelling_jobs
from airflow_hiveacid.engine.staging import Folder, StagedFile
from airflow_hiveacid.jobs.phases import Phase, PhaseClock
from airflow_hiveacid.jobs.report import PartitionCompaction
from airflow_hiveacid.listing import bucket_files, list_files, read_state
from airflow_hiveacid.maintenance.since import mark_visible
from airflow_hiveacid.metastore.catalog import HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.compaction import Compaction
from airflow_hiveacid.orc.empty import write_empty_file
from airflow_hiveacid.orc.row_types import row_types
from airflow_hiveacid.orc.stripe_plan import Piece, StripePlan
from airflow_hiveacid.storage import Storage, storage_error

T = TypeVar("T")
R = TypeVar("R")

_COMPACTED = b'{"thisFileVersion":"0","dataFormat":"compacted"}'


@dataclass
class PartitionCompactor:
    """Compacts one partition.

    Attributes:
        spark: The session.
        client: The metastore.
        table: The table.
        partition: The partition; None is a table without partitions.
        compaction: The transaction, entered.
        phases: Is told about the phases.
        warnings: What went wrong without changing the result.
    """

    spark: SparkSession
    client: MetastoreClient
    table: HiveTable
    partition: HivePartition | None
    compaction: Compaction
    phases: PhaseClock
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        folder = self.table.folder if self.partition is None else self.partition.folder
        self._storage = Storage.of(folder.rstrip("/"))
        self._staging = f"{STAGING_PREFIX}{self.compaction.txn_id}_{uuid.uuid4().hex[:8]}"
        self._staged: dict[Base | Delta, list[StagedFile]] = {}
        self._published: list[str] = []
        self._bytes_read = self._bytes_written = 0
        self._stripes_copied = self._stripes_encoded = 0

    def run(self, type_: CompactionType, reason: str) -> PartitionCompaction:
        """Compact and commit.

        Args:
            type_: What is asked for; Hive 3 may get a major one instead.
            reason: Why, for the report.

        Raises:
            NothingToCompact: It would change nothing.
        """
        hive3 = self.compaction.version is MetastoreVersion.HMS3
        if hive3 and not self._storage.renames_at_once:
            raise UnsupportedTable(
                f"{self._name} is on an object store, where a base appears file by file. Only Hive"
                " Metastore 4 hides it until it is complete.",
                remedy="Let Hive compact the table.",
            )
        with self.phases(Phase.READ):
            files = list_files(self._storage)
            state = read_state(
                self._storage,
                files,
                self.compaction.write_ids,
                self.compaction.txns,
                rules=Rules.HIVE3 if hive3 else Rules.HIVE4,
            )
            plan = plan_compaction(state, type_, files)
            if hive3 and plan.deletes is not None:
                # Two directories cannot appear at once, and Hive 3 has no transaction to hide them
                # meanwhile: whoever read in between would miss rows, or see deleted ones again.
                self.warnings.append(
                    "A minor compaction of inserts and deletes makes two directories, which Hive 3"
                    " cannot be shown at once: it became a major one."
                )
                plan = plan_compaction(state, CompactionType.MAJOR, files)
            inserts, deletes = self._inputs(state, plan)
        self.compaction.own(
            partial(self._storage.delete_directory, self._staging),
            f"{self._storage.location}/{self._staging}",
        )
        group = f"hiveacid-{self.compaction.txn_id}"
        with (
            self.phases(Phase.WRITE),
            cancelling_jobs(self.spark, group, f"{plan.type} {self._name}"),
            spark_errors_as_ours(f"Compacting {self._name}"),
        ):
            self._write_rows(plan, inserts)
            if plan.deletes is not None:
                self._write_deletes(plan.deletes, deletes)
            self._write_nothing(plan)
        self.compaction.check_alive()
        with self.phases(Phase.REGISTER):
            self.compaction.record(self.compaction.write_ids.high_watermark)
        with self.phases(Phase.PUBLISH):
            self._publish(plan)
        self.compaction.commit()
        self._remember()
        return PartitionCompaction(
            table=self.table.ref.full_name,
            partition=None if self.partition is None else self.partition.name,
            type=plan.type.value,
            outcome="compacted",
            reason=reason,
            txn_id=self.compaction.txn_id,
            published=tuple(self._published),
            replaced=plan.inputs,
            rows=self._rows_of(plan.inserts),
            deletes=0 if plan.deletes is None else self._rows_of(plan.deletes),
            bytes_read=self._bytes_read,
            bytes_written=self._bytes_written,
            stripes_copied=self._stripes_copied,
            stripes_encoded=self._stripes_encoded,
            seconds=self.phases.seconds,
            warnings=(*self.compaction.warnings, *self.warnings),
        )

    def _rows_of(self, directory: Base | Delta) -> int:
        return sum(file.rows for file in self._staged.get(directory, ()))

    @property
    def _name(self) -> str:
        name = self.table.ref.full_name
        return name if self.partition is None else f"{name}/{self.partition.name}"

    def _inputs(
        self, state: AcidDirectory, plan: CompactionPlan
    ) -> tuple[list[BucketInputs], list[BucketInputs]]:
        """The buckets of rows and the buckets of delete events that will be written."""
        write_ids = self.compaction.write_ids
        rows: dict[int, list[InputFile]] = {}
        events: dict[int, list[InputFile]] = {}
        for directory, bucket, file in bucket_files(self._storage, state):
            if directory.name not in plan.inputs:
                continue
            self._bytes_read += file.size
            if isinstance(directory, Delta):
                extent = (directory.min_write_id, directory.max_write_id)
                exact = write_ids.range_aborted(*extent) is Range.NONE
                group = events if directory.is_delete else rows
            else:
                exact, group = True, rows
            group.setdefault(bucket, []).append(InputFile(file.path, file.size, exact))
        major = plan.type is CompactionType.MAJOR

        def deletes_of(bucket: int) -> tuple[InputFile, ...]:
            if not major:
                return ()
            if self.table.num_buckets > 0:
                return tuple(events.get(bucket, ()))
            # Without buckets an engine may put the delete of a row into a file of another number.
            return tuple(file for number in sorted(events) for file in events[number])

        root, aborted = self._storage.location, write_ids.aborted
        return (
            [
                BucketInputs(root, bucket, tuple(rows[bucket]), deletes_of(bucket), aborted)
                for bucket in sorted(rows)
            ],
            [
                BucketInputs(root, bucket, (), tuple(events[bucket]), aborted)
                for bucket in sorted(events)
            ],
        )

    def _write_rows(self, plan: CompactionPlan, inputs: Sequence[BucketInputs]) -> None:
        out = Folder(self._storage.location, f"{self._staging}/out")
        parts = Folder(self._storage.location, f"{self._staging}/parts")
        plans: dict[BucketInputs, StripePlan] = {}
        sorting: dict[BucketInputs, HiveAcidError] = {}
        planned = self._tried_in_tasks(partial(plan_bucket, out), inputs)
        for bucket, tried in zip(inputs, planned, strict=True):
            if isinstance(tried, OutOfOrder):
                sorting[bucket] = tried
            elif isinstance(tried, CopiedBucket):
                self._keep_rows(plan, tried.work, tried.file)
            else:
                plans[bucket] = _result(tried)
        work = [
            EncodeWork(bucket, found.layout, piece, parts)
            for bucket, found in plans.items()
            for piece in found.pieces
            if not piece.copy
        ]
        if work:
            stripes = sum(len(each.piece.stripes) for each in work)
            self.phases.note(f"Writing {stripes} stripes anew in {len(work)} tasks")
        encoded: dict[tuple[BucketInputs, Piece], EncodedPart] = {}
        for each, done in zip(work, self._tried_in_tasks(encode_piece, work), strict=True):
            if isinstance(done, BeyondArrow):
                sorting[each.inputs] = done
            else:
                encoded[each.inputs, each.piece] = _result(done)
        assembling = [
            AssembleWork(bucket, found, tuple(encoded.get((bucket, p)) for p in found.pieces), out)
            for bucket, found in plans.items()
            if bucket not in sorting
        ]
        for last, file in zip(assembling, self._in_tasks(assemble_bucket, assembling), strict=True):
            self._keep_rows(plan, last, file)
        for bucket, why in sorting.items():
            self.phases.note(f"Sorting bucket {bucket.bucket}: {why.what}")
            file = sort_bucket(self.spark, self.table, bucket, self.compaction.write_ids, out)
            self._keep(plan.inserts, file)

    def _write_deletes(self, directory: Delta, inputs: Sequence[BucketInputs]) -> None:
        out = Folder(self._storage.location, f"{self._staging}/out")
        codec = self.table.parameters.get("orc.compress", "zlib").lower()
        types = tuple(self._row_types())
        work = [DeleteWork(bucket, types, codec, out) for bucket in inputs]
        for file in self._in_tasks(merge_deletes, work):
            self._keep(directory, file)

    def _write_nothing(self, plan: CompactionPlan) -> None:
        """Make sure that there is something to hide what is replaced.

        It holds a real file of no rows, because Trino does not see a directory without one.
        """
        enough = plan.inserts in self._staged if isinstance(plan.inserts, Base) else self._staged
        if enough:
            return
        path = f"{self._staging}/out/empty"
        codec = self.table.parameters.get("orc.compress", "zlib").lower()
        with self._storage.create(path) as sink:
            written = write_empty_file(sink, self._row_types(), codec=codec)
        self._staged[plan.inserts] = [StagedFile(path, 0, 0, written.bytes)]

    def _keep(self, directory: Base | Delta, file: StagedFile) -> None:
        if file.rows:
            self._staged.setdefault(directory, []).append(file)

    def _keep_rows(self, plan: CompactionPlan, work: AssembleWork, file: StagedFile) -> None:
        """Compare what stands in the new file with what stands in the old ones, and keep it."""
        wanted = 0
        for piece, encoded in zip(work.plan.pieces, work.encoded, strict=True):
            if encoded is None:
                self._stripes_copied += len(piece.stripes)
                wanted += piece.rows
            else:
                self._stripes_encoded += len(piece.stripes)
                wanted += encoded.rows
                if encoded.rows_read != piece.rows:
                    raise CorruptFile(
                        f"Bucket {file.bucket} of {self._name}: {encoded.rows_read} rows were read"
                        f" where {piece.rows} should be."
                    )
        if file.rows != wanted:
            raise CorruptFile(
                f"Bucket {file.bucket} of {self._name} has {file.rows} rows after its compaction,"
                f" not {wanted}.",
                remedy="Nothing was published; look at the bucket's files.",
            )
        self._keep(plan.inserts, file)

    def _publish(self, plan: CompactionPlan) -> None:
        """Let the new directories appear, each by one rename."""
        sidecar = self._sidecar(plan)
        side_files = {ACID_VERSION_FILE: b"2", SIDECAR_FILE: sidecar}
        hive3 = self.compaction.version is MetastoreVersion.HMS3
        ready: list[tuple[str, str]] = []
        for directory, files in self._staged.items():
            final = replace(directory, visibility_txn=self.compaction.visibility_txn).name
            folder = f"{self._staging}/ready/{final}"
            self._storage.make_directory(folder)
            for file in files:
                self._storage.rename(file.path, f"{folder}/{BucketFile(file.bucket).name}")
                self._bytes_written += file.bytes
            marker = {METADATA_FILE: _COMPACTED} if hive3 and isinstance(directory, Base) else {}
            for name, content in (side_files | marker).items():
                self._create(f"{folder}/{name}", content)
            ready.append((folder, final))
        for _, final in ready:
            if self._storage.exists(final):
                raise StorageError(
                    f"{self._storage.location}/{final} exists already.",
                    remedy="Another compactor has been here; look whose it is.",
                )
        self.compaction.check_alive()
        for folder, final in ready:
            if not hive3:
                self.compaction.own(
                    partial(self._storage.delete_directory, final),
                    f"{self._storage.location}/{final}",
                )
            # On Hive 3 this is the commit: whoever reads from now on may already need it.
            self._storage.rename(folder, final)
            self._published.append(final)
        self._storage.delete_directory(self._staging)

    def _sidecar(self, plan: CompactionPlan) -> bytes:
        note = {
            "operation": plan.type.value,
            "txn_id": self.compaction.txn_id,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "user": os.environ.get("USER", ""),
            "replaces": list(plan.inputs),
        }
        return json.dumps(note, indent=1).encode()

    def _remember(self) -> None:
        """Note who may still read what was replaced; the cleaner can find that out by itself, too."""
        try:
            for final in self._published:
                mark_visible(self.client, self._storage, final, self.table.ref)
        except HiveAcidError as error:
            self.warnings.append(f"Cleaning will take a run more: {error}")

    def _create(self, path: str, content: bytes) -> None:
        try:
            with self._storage.create(path) as sink:
                sink.write(content)
        except OSError as error:
            raise storage_error(error, f"{self._storage.location}/{path}") from error

    def _row_types(self) -> Sequence[bytes]:
        return row_types(row_struct([(c.name, c.type) for c in self.table.columns]))

    def _in_tasks(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Run one task for each item.

        Raises:
            HiveAcidError: What the first failed task said.
        """
        return [_result(tried) for tried in self._tried_in_tasks(work, items)]

    def _tried_in_tasks(
        self, work: Callable[[T], R], items: Sequence[T]
    ) -> list[R | HiveAcidError]:
        if not items:
            return []
        tasks = self.spark.sparkContext.parallelize(items, len(items))
        return tasks.map(caught(work)).collect()


def _result(tried: R | HiveAcidError) -> R:
    if isinstance(tried, HiveAcidError):
        raise tried
    return tried
