"""Options of a run for jobs, writes in Python, and streams."""

from dataclasses import fields
from typing import Any, Literal, get_args

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.jobs.fields import require_choice, require_text
from hiveacid.rules.locks import ConflictPolicy
from hiveacid.rules.run_tokens import source_token

# The processes that work on rows: those of the task or command, an application, or as they fit.
Place = Literal["auto", "worker", "spark"]
# The handling of sources without rows; see RowJob.
OnEmpty = Literal["fail", "skip", "ok"]
OrcCodec = Literal["none", "zlib", "snappy", "lz4", "zstd"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of a run.

    Attributes:
        run_token: The name of the run's transactions; runs with the same name apply a change once.
        run_id: The run of the DAG, for display, where ``once_per`` replaces it in run_token.
        lock_wait_seconds: The maximum waiting time for locks.
        max_restarts: The maximum number of restarts if the table changed before the work began.
        conflict_policy: The treatment of concurrent commits in the same partitions:
            "hive" applies the rules of the metastore; "strict" also refuses the combinations that
            `hiveacid plan --conflicts` shows; "rows" permits changes of different rows.
        orc_codec: "zlib", "snappy", "lz4", "zstd" or "none"; None takes the table's orc.compress,
            else zlib. Only Hive 4 reads zstd.
    """

    run_token: str | None = None
    run_id: str | None = None
    lock_wait_seconds: float = 300
    max_restarts: int = 5
    conflict_policy: ConflictPolicy | str = "hive"
    orc_codec: OrcCodec | str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options by name, without other fields of a subclass."""
        return {field.name: getattr(self, field.name) for field in fields(RunOptions)}

    @property
    def known_run_token(self) -> str:
        """The run token of a run that has one.

        Raises:
            InvalidJob: The run has no token.
        """
        if self.run_token is None:
            raise InvalidJob("The job has no run token.")
        return self.run_token

    @property
    def source_token(self) -> str | None:
        """The name of the run's transactions that only read or keep a source.

        The next attempt ends them, so that it does not wait for their locks.
        """
        return None if self.run_token is None else source_token(self.run_token)

    def validate_options(self) -> None:
        """Raise InvalidJob if an option has an invalid value."""
        if self.run_token is not None:
            require_text(self.run_token, "run_token")
        if self.run_id is not None:
            require_text(self.run_id, "run_id")
        if self.lock_wait_seconds < 0:
            raise InvalidJob("lock_wait_seconds must not be negative.")
        if self.max_restarts < 0:
            raise InvalidJob("max_restarts must not be negative.")
        require_choice(self.conflict_policy, get_args(ConflictPolicy), "conflict_policy")
        if self.orc_codec is not None:
            require_choice(self.orc_codec, get_args(OrcCodec), "orc_codec")
