"""HiveAcidMirrorFreshTrigger: the waiting for a mirror in Iceberg."""

from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from asgiref.sync import sync_to_async

from airflow_hiveacid.acid.mirror_lag import LagLimits
from airflow_hiveacid.hooks.catalog_options import all_catalog_options, require_no_secrets
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.iceberg_job import IcebergExportJob
from airflow_hiveacid.triggers.waiting import Poll, WaitingTrigger

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.options.metastore_options import MetastoreOptions


class HiveAcidMirrorFreshTrigger(WaitingTrigger):
    """Fires once a mirror has the versions of its Hive table; see HiveAcidMirrorFreshSensor.

    :param target: The Hive table.
    :param table: The Iceberg table.
    :param catalog: The name of its catalog.
    :param catalog_options: Options of the catalog, without secrets.
    :param catalog_conn_id: A connection whose extra has further options of the catalog.
    :param version: The version that the mirror must have; None requires all committed versions.
    :param max_versions: How many versions may be missing.
    :param max_lag: The age in seconds up to which any number of versions may be missing; if None, the
        age does not count.
    :param waiting: The parameters of WaitingTrigger.
    """

    parameters: ClassVar[tuple[str, ...]] = (
        *("target", "table", "catalog", "catalog_options", "catalog_conn_id"),
        *("version", "max_versions", "max_lag"),
    )
    poll_seconds: ClassVar[float] = 120

    def __init__(
        self,
        *,
        target: str,
        table: str,
        catalog: str,
        catalog_options: dict[str, str],
        version: int | None,
        max_versions: int,
        max_lag: float | None,
        catalog_conn_id: str | None = None,
        **waiting: Any,
    ) -> None:
        super().__init__(**waiting)
        require_no_secrets(catalog_options)
        self.target = target
        self.table = table
        self.catalog = catalog
        self.catalog_options = catalog_options
        self.version = version
        self.max_versions = max_versions
        self.max_lag = max_lag
        self.catalog_conn_id = catalog_conn_id
        self._all_options: dict[str, str] = {}

    async def read_connections(self) -> None:
        """Read the options of the catalog from its connection."""
        read = sync_to_async(all_catalog_options)
        self._all_options = await read(self.catalog_options, self.catalog_conn_id)

    @property
    def server(self) -> str:
        """The host of the catalog, or else its name."""
        uri = self.catalog_options.get("uri", "")
        return urlsplit(uri).netloc.rpartition("@")[2] or uri or self.catalog

    def prepare(self, options: "MetastoreOptions") -> Poll:
        """Return the poll of both tables."""
        # Thrift takes a second to import.
        from airflow_hiveacid.iceberg.run import lag_of_mirror
        from airflow_hiveacid.metastore.client import MetastoreClient

        job = IcebergExportJob(
            target=self.target,
            metastore=options,
            table=self.table,
            catalog=self.catalog,
            catalog_options=self._all_options,
        )
        limits = LagLimits(versions=self.max_versions, seconds=self.max_lag)

        def poll() -> dict[str, Any] | None:
            with MetastoreClient(options) as client:
                lag = lag_of_mirror(client, job, self.version)
            return {"lag": codec.to_record(lag)} if limits.tolerate(lag) else None

        return poll
