"""The settings of a profile."""

from dataclasses import field
from typing import Any

from dbt.adapters.contracts.connection import Credentials
from dbt_common.exceptions import DbtRuntimeError

from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.writes.statement import WriteOptions


@dataclass
class HiveAcidCredentials(Credentials):
    """The settings of an output in profiles.yml.

    Attributes:
        database: Always the schema: the metastore has no level above databases.
        schema: The database of the metastore for models.
        metastore: The uri of the metastore, or its options by name.
        spark: Settings of Spark, such as ``spark.master``.
        once_per: The run, in place of the invocation: a model is applied once for each value.
        lock_wait_seconds: The maximum waiting time for locks.
        conflict_policy: The treatment of concurrent commits: hive, strict, or rows.
    """

    database: str | None = None
    schema: str = "default"
    metastore: str | dict[str, Any] | None = None
    spark: dict[str, Any] = field(default_factory=dict)
    once_per: str | None = None
    lock_wait_seconds: float = 300
    conflict_policy: str = "hive"

    @classmethod
    def __pre_deserialize__(cls, data: Any) -> Any:
        data = super().__pre_deserialize__(data)
        data.setdefault("database", None)
        return data

    def __post_init__(self) -> None:
        if self.database not in (None, self.schema):
            raise DbtRuntimeError(
                f"database {self.database!r} is not the schema {self.schema!r}: the metastore has one"
                " level of names. Omit database."
            )
        self.database = None
        try:
            self.options()
            self.writes()
        except (HiveAcidError, TypeError) as error:
            raise DbtRuntimeError(f"The output for Hive ACID tables is invalid: {error}") from error

    @property
    def type(self) -> str:
        """The type of the adapter."""
        return "hiveacid"

    @property
    def unique_field(self) -> str:
        """The address of the metastore, which dbt hashes for its telemetry."""
        return self.options().uris

    def _connection_keys(self) -> tuple[str, ...]:
        return ("metastore", "schema", "once_per", "lock_wait_seconds", "conflict_policy")

    @property
    def settings(self) -> dict[str, str]:
        """The settings of Spark as texts; without its bars of progress, which dbt's lines break."""
        given = {"spark.ui.showConsoleProgress": False, **self.spark}
        return {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in given.items()
        }

    def options(self) -> MetastoreOptions:
        """Return the options of the metastore; by default those of the environment."""
        match self.metastore:
            case None:
                return MetastoreOptions.of_environment()
            case dict():
                return MetastoreOptions.of(MetastoreOptions(**self.metastore))
        return MetastoreOptions.of(self.metastore)

    def writes(self, run_token: str | None = None) -> WriteOptions:
        """Return the options of a write.

        Args:
            run_token: The name of the run's transactions.
        """
        return WriteOptions(
            run_token=run_token,
            lock_wait_seconds=self.lock_wait_seconds,
            conflict_policy=self.conflict_policy,
        )
