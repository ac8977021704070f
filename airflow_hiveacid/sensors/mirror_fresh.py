"""HiveAcidMirrorFreshSensor: waits for a mirror in Iceberg."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook

from airflow_hiveacid.hooks.tasks import emit
from airflow_hiveacid.sensors.condition import ConditionSensor
from airflow_hiveacid.triggers.condition import Condition, Poller
from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidConnection, InvalidJob, secrets_of
from hiveacid.jobs import codec
from hiveacid.jobs.fields import before_rendering, is_task_output, is_template
from hiveacid.jobs.iceberg_job import IcebergExportJob
from hiveacid.rules.lag import LagLimits

if TYPE_CHECKING:
    from airflow.sdk import Context


# Options of a catalog of Iceberg, whose secrets come from a connection


def require_no_secrets(catalog_options: Mapping[str, str]) -> None:
    """Refuse secrets in the arguments of a trigger, which Airflow stores in its database.

    :param catalog_options: Options of a catalog.
    :raises InvalidJob: They contain a secret.
    """
    if any(secrets_of(catalog_options)):
        raise InvalidJob(
            "catalog_options of a deferred sensor contains a secret, which Airflow would store in its"
            " database.",
            remedy="Move the option into the extra of a connection, and name the connection by"
            " catalog_conn_id; or set deferrable=False.",
        )


def all_catalog_options(
    catalog_options: Mapping[str, str], catalog_conn_id: str | None
) -> dict[str, str]:
    """Return options of a catalog, with those in the extra of a connection.

    :param catalog_options: The options that are no secrets.
    :param catalog_conn_id: The connection, or None.
    :raises InvalidConnection: The connection does not exist.
    """
    if catalog_conn_id is None:
        return dict(catalog_options)
    try:
        extra = BaseHook.get_connection(catalog_conn_id).extra_dejson
    except AirflowNotFoundException as error:
        raise InvalidConnection(
            f"There is no connection {catalog_conn_id!r}.",
            remedy="Create it, with the options of the catalog in its extra.",
        ) from error
    return {**catalog_options, **{name: str(value) for name, value in extra.items()}}


@dataclass(frozen=True, kw_only=True)
class MirrorFresh(Condition):
    """A mirror has the versions of its Hive table; see HiveAcidMirrorFreshSensor."""

    target: str
    table: str
    catalog: str
    catalog_options: Mapping[str, str]
    catalog_conn_id: str | None = None
    version: int | None = None
    limits: LagLimits

    poll_seconds: ClassVar[float] = 120

    def validate(self) -> None:
        """Check the names and the options."""
        self._job.validate()

    @property
    def server(self) -> str:
        """The host of the catalog, or else its name."""
        uri = self.catalog_options.get("uri", "")
        return urlsplit(uri).netloc.rpartition("@")[2] or uri or self.catalog

    def connected(self) -> "MirrorFresh":
        """Return the condition with the options in the connection of the catalog."""
        options = all_catalog_options(self.catalog_options, self.catalog_conn_id)
        return replace(self, catalog_options=options)

    def store(self) -> dict[str, Any]:
        """Refuse to store secrets."""
        require_no_secrets(self.catalog_options)
        return super().store()

    def poll(self, poller: Poller) -> dict[str, Any] | None:
        """Return the lag of the mirror, once it is within the limits."""
        from hiveacid.iceberg.run import lag_of_mirror
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.upkeep.metric_collection import mirror_samples

        job = replace(self._job, metastore=poller.metastore)
        poller.require_access([self.target, job.subject])
        with MetastoreClient(poller.metastore) as client:
            lag = lag_of_mirror(client, job, self.version)
        if self.version is None:
            emit(lambda: mirror_samples(self.target.lower(), self.catalog, self.table, lag))
        poller.log.info("%s, the mirror of %s, is %s.", self.table, self.target, lag)
        encoded_lag: dict[str, Any] = codec.encode(lag)
        return encoded_lag if self.limits.tolerate(lag) else None

    @property
    def _job(self) -> IcebergExportJob:
        return IcebergExportJob(
            target=self.target,
            table=self.table,
            catalog=self.catalog,
            catalog_options=self.catalog_options,
        )


class HiveAcidMirrorFreshSensor(ConditionSensor):
    """Waits until a mirror in Iceberg has the versions of its Hive table.

    It does not update the mirror: the task of a HiveAcidToIcebergOperator does. Each poll loads the
    metadata of the Iceberg table, takes three small calls of the metastore, and reads the note of the
    last run in the folder of the Hive table. It needs the package's extra ``iceberg``.

    The XCom value is ``{"version": ..., "newest": ..., "versions": ..., "seconds": ...}``: the newest
    version that the mirror has, that of the Hive table, the number of missing versions, and the
    maximum age of the oldest of them. If the Iceberg table does not exist, or is no mirror of the Hive
    table, the task fails.

    Example::

        HiveAcidMirrorFreshSensor(
            task_id="fresh",
            target="sales.orders",
            table="lake.orders",
            max_lag=timedelta(minutes=30),
            deferrable=True,
        )

    :param target: The Hive table, ``database.table``. (templated)
    :param table: The Iceberg table, ``namespace.table``. (templated)
    :param catalog: The name of its catalog, as in IcebergExportJob. (templated)
    :param catalog_options: Options of the catalog, as in IcebergExportJob. Texts in it are templates,
        and Airflow does not show them among the rendered ones.
    :param catalog_conn_id: A connection of Airflow whose extra has further options of the catalog. A
        deferrable sensor takes secrets only there, because Airflow stores the arguments of its
        trigger. (templated)
    :param version: The write id in the report of a job that the mirror must have; by default all
        committed versions. (templated)
    :param max_versions: How many versions may be missing.
    :param max_lag: The mirror may also lack versions that are younger than this. Their age is the time
        since the last run of the mirror began.
    :param metastore_conn_id: The metastore of the Hive table.
    :param metastore_patience: How long the metastore, HDFS or the catalog may be unreachable, or a
        ticket expired: until then the sensor warns and polls again, then the task fails. In mode
        ``reschedule`` it requires Airflow 3.3; in earlier versions the task fails at once.
    :param deferrable: Wait in the triggerer instead of on a worker.
    """

    template_fields: Sequence[str] = ("target", "table", "catalog", "catalog_conn_id", "version")
    text_fields: ClassVar[Sequence[str]] = ("target", "table", "catalog", "catalog_conn_id")

    def __init__(
        self,
        *,
        target: str,
        table: str,
        catalog: str = "default",
        catalog_options: Mapping[str, str] | None = None,
        catalog_conn_id: str | None = None,
        version: int | str | None = None,
        max_versions: int = 0,
        max_lag: timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target = target
        self.table = table
        self.catalog = catalog
        self.catalog_options = catalog_options
        self.catalog_conn_id = catalog_conn_id
        self.version = version
        self.max_versions = max_versions
        self.max_lag = max_lag
        if max_versions < 0 or (max_lag is not None and max_lag < timedelta(0)):
            raise InvalidJob(f"The limits of {type(self).__name__} {self.task_id!r} are negative.")
        if not is_task_output((target, table, catalog)):
            with before_rendering():
                self._mirror(catalog_options or {}).validate()
        if not is_template(version):
            self._required_version()
        if self.deferrable:
            require_no_secrets(catalog_options or {})

    def _condition(self, context: "Context") -> MirrorFresh:
        options = self._render_texts(self.catalog_options or {}, context)
        return self._mirror(options, self._required_version())

    def _mirror(self, options: Mapping[str, str], version: int | None = None) -> MirrorFresh:
        seconds = None if self.max_lag is None else self.max_lag.total_seconds()
        return MirrorFresh(
            target=self.target,
            table=self.table,
            catalog=self.catalog,
            catalog_options=options,
            catalog_conn_id=self.catalog_conn_id,
            version=version,
            limits=LagLimits(versions=self.max_versions, seconds=seconds),
        )

    def _required_version(self) -> int | None:
        if self.version is None:
            return None
        try:
            return int(self.version)
        except (TypeError, ValueError):
            raise InvalidJob(
                f"version of {type(self).__name__} {self.task_id!r} is {self.version!r}.",
                remedy="Pass the number of a version, such as a write id in the report of a job.",
            ) from None
