"""Compaction of one partition of a full ACID table: rows keep their row ids and their bytes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hiveacid.errors import (
    BeyondArrow,
    HiveAcidError,
    OutOfOrder,
    SparkNeeded,
    UnsupportedFile,
)
from hiveacid.metastore.catalog import StorageFormat
from hiveacid.orc.copying.stripe_plan import StripeGroup, StripePlan
from hiveacid.orc.row_keys.census import RowConstraints, StripeCensus
from hiveacid.orc.row_keys.delete_file import write_empty_file
from hiveacid.rules.compaction import Balance, CompactionPlan, CompactionType, Tally
from hiveacid.rules.directory import synthetic_ids, written_by
from hiveacid.rules.names import (
    ACID_VERSION_FILE,
    CONVERTED_BASE,
    Base,
    BucketFile,
    Delta,
    holds_deletes,
    may_delete,
)
from hiveacid.rules.schema import common_layout
from hiveacid.rules.texts import plural
from hiveacid.rules.write_ids import Range
from hiveacid.storage.file_columns import orc_row_types
from hiveacid.storage.listing import DataFile
from hiveacid.storage.staging import Folder, StagedFile
from hiveacid.upkeep.compaction.partition import (
    PartitionCompactor,
    PlannedCompaction,
    Planner,
    RowOrder,
)
from hiveacid.upkeep.compaction.proof import (
    CountedFile,
    RecountTask,
    RepetitionTask,
    balance,
    census_tasks,
    check_columns,
    count_files,
    count_repeated,
    recount_file,
)
from hiveacid.upkeep.compaction.scheduling import result_of
from hiveacid.upkeep.compaction.tasks import (
    AssembleTask,
    BucketInputs,
    CopiedBucket,
    EncodedPart,
    EncodeTask,
    InputFile,
    MergeDeletesTask,
    RowIdTask,
    assemble_bucket,
    count_rows,
    encode_group,
    give_row_ids,
    merge_deletes,
    plan_bucket,
    stated_codec,
)

# A core encodes so many bytes of rows while it merges one byte of delete events, which are small.
_ENCODED_WHILE_MERGED = 10


class AcidCompactor(PartitionCompactor):
    """Compacts one partition of a full ACID table."""

    @classmethod
    def require_possible(cls, planner: Planner, order: RowOrder) -> None:
        """See the base class."""

    def write(self, compaction: PlannedCompaction) -> None:
        """See the base class."""
        plan = compaction.plan
        files = list(self._counted(compaction))
        rows = [file for file in files if not file.constraints.is_delete]
        events = [file for file in files if file.constraints.is_delete]
        census = self._take_census(plan, rows, events)
        inserts, deletes = self._inputs(plan, rows, events)
        self._write_rows(plan, inserts)
        if plan.deletes is not None:
            self._write_deletes(plan.deletes, deletes)
        self._write_nothing(plan)
        self.rows += self._balance(plan.inserts, rows, census)
        if plan.deletes is not None:
            self.events += self._balance(plan.deletes, events, census)

    def sort(self, bucket: BucketInputs, reason: str, out: Folder) -> tuple[StagedFile, Tally]:
        """Write a bucket whose stripes can be neither copied nor decoded one by one.

        Args:
            bucket: The bucket.
            reason: The reason.
            out: The folder of the file.

        Returns:
            The file, and its rows with all their values.

        Raises:
            SparkNeeded: Rows are sorted by Spark only.
        """
        raise SparkNeeded(f"Bucket {bucket.bucket} of {self.name} must be sorted: {reason}")

    def file_name(self, number: int) -> str:
        """See the base class."""
        return BucketFile(number).name

    def write_empty(self, sink: Any) -> int:
        """See the base class."""
        return write_empty_file(sink, orc_row_types(self.table), codec=self.table.orc_codec).bytes

    def side_files(self, directory: Base | Delta) -> dict[str, bytes]:
        """See the base class."""
        return {ACID_VERSION_FILE: b"2"} | super().side_files(directory)

    def layout_note(
        self, plan: CompactionPlan, notes: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Any]:
        """See the base class."""
        if plan.type is CompactionType.REBALANCE:
            return {}
        sources = [name for name in plan.inputs if not holds_deletes(name)]
        layout = common_layout(notes.get(name, {}) for name in sources)
        return {} if layout is None else layout.to_note()

    def _counted(self, compaction: PlannedCompaction) -> Iterator[CountedFile]:
        """The input files, with the declared properties of their rows."""
        for bucket, file in self._input_files(compaction):
            yield CountedFile(bucket, file, self._constraints(file.directory, bucket))

    def _constraints(self, directory: Base | Delta, bucket: int) -> RowConstraints:
        is_delete = isinstance(directory, Delta) and directory.is_delete
        numbers: tuple[int, ...] | None = (bucket,) if is_delete else (bucket, 0)
        if not self.planner.clustered or (is_delete and not bucket):
            numbers = None  # See ``may_delete``.
        return RowConstraints(is_delete, directory.write_ids, numbers)

    def _deletes_of(
        self, plan: CompactionPlan, bucket: int, events: Sequence[CountedFile]
    ) -> tuple[CountedFile, ...]:
        """The files with the delete events that are applied to a bucket."""
        if plan.type is not CompactionType.MAJOR:
            return ()
        files_with_events = [
            event
            for event in events
            if may_delete(event.bucket, bucket, clustered=self.planner.clustered)
        ]
        return tuple(sorted(files_with_events, key=lambda file: file.bucket))

    def _take_census(
        self, plan: CompactionPlan, rows: Sequence[CountedFile], events: Sequence[CountedFile]
    ) -> dict[CountedFile, tuple[StripeCensus, ...]]:
        """Count all rows and events of the compaction's input."""
        files_by_deletes: dict[tuple[CountedFile, ...], list[CountedFile]] = {}
        if plan.type is CompactionType.MINOR:
            files_by_deletes[()] = [*rows, *events]
        else:
            # In tables without buckets, all files have the same delete files.
            for bucket in sorted({file.bucket for file in rows}):
                # The proof does not use the compaction's own selection.
                deletes = tuple(
                    event
                    for event in events
                    if may_delete(event.bucket, bucket, clustered=self.planner.clustered)
                )
                files = (file for file in rows if file.bucket == bucket)
                files_by_deletes.setdefault(deletes, []).extend(files)
        tasks = [
            task
            for deletes, files in files_by_deletes.items()
            for task in census_tasks(
                self.storage.location,
                files,
                deletes,
                self.planner.write_ids.aborted,
                self.table.mapped_columns,
            )
        ]
        censuses_of_tasks = self.tasks.run(count_files, tasks, effort=self.effort_of_copying)
        return {
            counted_file: stripes
            for task, censuses in zip(tasks, censuses_of_tasks, strict=True)
            for counted_file, stripes in zip(task.counted, censuses, strict=True)
        }

    def _balance(
        self,
        directory: Base | Delta,
        files: Sequence[CountedFile],
        census: Mapping[CountedFile, tuple[StripeCensus, ...]],
    ) -> Balance:
        """Compare the written rows with the rows that were read, bucket by bucket.

        Raises:
            ProofFailed: They differ.
        """
        read: dict[int, list[StripeCensus]] = {}
        for file in files:
            read.setdefault(file.bucket, []).extend(census[file])
        staged_files = self.staged(directory)
        root = self.folder("").root
        tasks = [
            RecountTask(
                root,
                file,
                self._constraints(directory, file.bucket),
                {stripe.fingerprint: stripe for stripe in read.get(file.bucket, ())},
            )
            for file in staged_files
        ]
        recounted = self.tasks.run(recount_file, tasks, effort=self.effort_of_copying)
        written_stripes = {
            file.bucket: stripes for file, stripes in zip(staged_files, recounted, strict=True)
        }
        total = Balance()
        for bucket in sorted({*read, *written_stripes}):
            subject = f"Bucket {bucket} of {self.name}"
            stripes = written_stripes.get(bucket, ())
            balanced = balance(read.get(bucket, ()), stripes, Tally(), subject)
            lives = balanced.read.rows - balanced.aborted.rows
            if self._is_delete(directory) and lives != balanced.written.rows:
                repetition = RepetitionTask(
                    self.storage.location,
                    tuple(file.file for file in files if file.bucket == bucket),
                    self.planner.write_ids.aborted,
                )
                (repeated,) = self.tasks.run(count_repeated, [repetition])
                balanced = replace(balanced, repeated=repeated)
            balanced.check(subject)
            total += balanced
        return total

    @staticmethod
    def _is_delete(directory: Base | Delta | None) -> bool:
        return isinstance(directory, Delta) and directory.is_delete

    def _inputs(
        self, plan: CompactionPlan, rows: Sequence[CountedFile], events: Sequence[CountedFile]
    ) -> tuple[list[BucketInputs], list[BucketInputs]]:
        """The buckets of rows and the buckets of delete events that will be written."""
        inputs = partial(
            BucketInputs,
            self.storage.location,
            aborted=self.planner.write_ids.aborted,
            types=orc_row_types(self.table),
            columns=self.table.mapped_columns,
            codec=stated_codec(self.table, self.planner.features),
        )

        def files(
            counted_files: Sequence[CountedFile], bucket: int | None = None
        ) -> tuple[InputFile, ...]:
            return tuple(file.file for file in counted_files if bucket in (None, file.bucket))

        return (
            [
                inputs(
                    bucket,
                    inserts=files(rows, bucket),
                    deletes=files(self._deletes_of(plan, bucket, events)),
                )
                for bucket in sorted({file.bucket for file in rows})
            ],
            [
                inputs(bucket, inserts=(), deletes=files(events, bucket))
                for bucket in sorted({file.bucket for file in events})
            ],
        )

    def _input_files(self, compaction: PlannedCompaction) -> Iterator[tuple[int, InputFile]]:
        """The input files, all with row ids, and the numbers of their buckets."""
        files = self.planner.acid_files(compaction)
        self.bytes_read = sum(file.size for file in files)
        # Row ids are added under the current names; other files are checked when they are counted.
        raw = [file for file in files if file.raw]
        check_columns(
            self.storage,
            self.table.mapped_columns,
            StorageFormat.ORC,
            [(file.path, file.size) for file in raw],
        )
        with_ids = self._give_row_ids(raw)
        for file in files:
            if file.raw and file.path not in with_ids:
                continue
            assert file.bucket is not None, file.path
            if file.raw:
                yield file.bucket, with_ids[file.path]
                continue
            assert file.directory is not None, file.path
            exact = self.planner.aborted(file.directory) is Range.NONE
            noted = self.noted_rows.get(file.path)
            input_ = InputFile(file.path, file.size, file.directory, exact, file.cut_off, noted)
            yield file.bucket, input_

    def _give_row_ids(self, files: Sequence[DataFile]) -> dict[str, InputFile]:
        """Add row ids to the files that lack them, if they have rows."""
        root, folder = self.storage.location, self.folder("rows")
        paths = [file.path for file in files]
        counts = self.tasks.run(partial(count_rows, root), paths, effort=self.effort_of_copying)
        rows: dict[Base | Delta | None, dict[str, int]] = {}
        for file, count in zip(files, counts, strict=True):
            rows.setdefault(file.directory, {})[file.path] = count
        tasks = [
            RowIdTask(
                root, ids, directory or Base(CONVERTED_BASE), self.table.mapped_columns, folder
            )
            for directory, row_counts in rows.items()
            for ids in synthetic_ids(row_counts, *written_by(directory))
            if ids.rows
        ]
        for task in tasks:
            if task.ids.bucket is None:
                raise UnsupportedFile(
                    f"{root}/{task.ids.path} has no bucket number in its name, so that its rows have"
                    " no row ids.",
                    remedy="Overwrite the table, or the partition, with its own rows; that makes a"
                    " base, too.",
                )
        if tasks:
            self.phases.note(f"Giving row ids to the rows of {plural(len(tasks), 'file')}")
        stamped_files = self.tasks.run(give_row_ids, tasks, effort=self.effort_of_copying)
        return {task.ids.path: file for task, file in zip(tasks, stamped_files, strict=True)}

    def _write_rows(self, plan: CompactionPlan, inputs: Sequence[BucketInputs]) -> None:
        out = self.output(plan.inserts)
        parts = self.folder("parts")
        plans: dict[BucketInputs, StripePlan] = {}
        sorting: dict[BucketInputs, HiveAcidError] = {}
        copying = self.effort_of_copying
        stripe_plans = self.tasks.tried(partial(plan_bucket, out), inputs, effort=copying)
        for bucket, tried in zip(inputs, stripe_plans, strict=True):
            if isinstance(tried, OutOfOrder):
                sorting[bucket] = tried
            elif isinstance(tried, CopiedBucket):
                self._keep_rows(plan, tried.task, tried.file)
            else:
                plans[bucket] = result_of(tried)
        tasks = [
            EncodeTask(bucket, stripe_plan.layout, group, parts)
            for bucket, stripe_plan in plans.items()
            for group in stripe_plan.groups
            if not group.copy
        ]
        if tasks:
            stripes = sum(len(task.group.stripes) for task in tasks)
            self.phases.note(
                f"Writing {plural(stripes, 'stripe')} again in {plural(len(tasks), 'task')}"
            )
        encoded_groups: dict[tuple[BucketInputs, StripeGroup], EncodedPart] = {}
        encoding = sum(task.group.bytes for task in tasks)
        tried_groups = self.tasks.tried(encode_group, tasks, effort=encoding)
        for task, outcome in zip(tasks, tried_groups, strict=True):
            if isinstance(outcome, BeyondArrow):
                sorting[task.inputs] = outcome
            else:
                encoded_groups[task.inputs, task.group] = result_of(outcome)
        assembling = [
            AssembleTask(
                bucket,
                stripe_plan,
                tuple(encoded_groups.get((bucket, p)) for p in stripe_plan.groups),
                out,
            )
            for bucket, stripe_plan in plans.items()
            if bucket not in sorting
        ]
        assembled = self.tasks.run(assemble_bucket, assembling, effort=copying)
        for last, file in zip(assembling, assembled, strict=True):
            self._keep_rows(plan, last, file)
        for bucket, error in sorting.items():
            file, values = self.sort(bucket, error.what, out)
            self.values += values
            self.keep(plan.inserts, file)

    def _write_deletes(self, directory: Delta, inputs: Sequence[BucketInputs]) -> None:
        out = self.output(directory)
        tasks = [MergeDeletesTask(bucket, self.table.orc_codec, out) for bucket in inputs]
        events = sum(file.size for bucket in inputs for file in bucket.deletes)
        effort = events * _ENCODED_WHILE_MERGED
        for file in self.tasks.run(merge_deletes, tasks, effort=effort):
            self.keep(directory, file)

    def _write_nothing(self, plan: CompactionPlan) -> None:
        """Make sure that a directory is published that hides the replaced ones.

        It contains a file without rows, because Trino ignores a directory without a file.
        """
        deletes = plan.deletes is not None and self.keeps(plan.deletes)
        if self.keeps(plan.inserts) or (deletes and isinstance(plan.inserts, Delta)):
            return
        self.keep_empty(plan.inserts)

    def _keep_rows(self, plan: CompactionPlan, task: AssembleTask, file: StagedFile) -> None:
        """Keep a file, and record how it was made."""
        for group, encoded_group in zip(task.plan.groups, task.encoded, strict=True):
            if encoded_group is None:
                self.stripes_copied += len(group.stripes)
            else:
                self.stripes_encoded += len(group.stripes)
                self.values += encoded_group.done.values
        self.keep(plan.inserts, file)
