"""Permissions of a user of the page: the visible tables and DAG runs."""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AssetDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models.asset import AssetModel
from airflow.models.dag import DagModel
from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.session import create_session
from fastapi import Depends, HTTPException, Request
from sqlalchemy import select

from airflow_hiveacid.plugin.dag_tables import DagTables, tables_of_dag
from airflow_hiveacid.plugin.measuring import Measured
from airflow_hiveacid.plugin.metastores import instance_id
from hiveacid.jobs.job import SHOW, Access
from hiveacid.jobs.options.run_token import dag_of
from hiveacid.metastore.authorizer import may_access
from hiveacid.records.entries import HistoryEntry
from hiveacid.records.mirror_notes import KnownMirror
from hiveacid.records.stream_state import StreamState
from hiveacid.upkeep.health_score import TableHealth


class PageAccess:
    """Permissions of the user of one request; each is asked for once."""

    def __init__(self, request: Request, user: GetUserDep) -> None:
        """Remember the user.

        Args:
            request: The request.
            user: The user, by Airflow's login.
        """
        self._request = request
        self._user = user
        self._dags: dict[str, bool] = {}

    def measured(self, known: Measured) -> Measured:
        """Return a measurement with the tables that the user may see.

        Args:
            known: The measurement.
        """
        if known.tables is None:
            return known
        return replace(
            known,
            tables=tuple(
                map(self.health, filter(lambda each: self.sees(each.table), known.tables))
            ),
        )

    def sees(self, table: str) -> bool:
        """Return whether the user may see a table.

        Every asset of the table has to be readable, and one of the DAGs that work on it. If none is
        known, the table may be one of a DAG that determines its tables at run time: all such DAGs
        have to be readable. The authorizer has to allow it, too.

        Args:
            table: "database.table".
        """
        if not all(map(self._reads_asset, self._assets.get(table, ()))):
            return False
        dags = [
            dag_id
            for dag_id, tables in self._tables_of_dags.items()
            if any(fnmatchcase(table, pattern) for pattern in tables.patterns)
        ]
        if dags:
            readable = any(map(self._reads_dag, dags))
        else:
            readable = all(
                self._reads_dag(dag_id)
                for dag_id, tables in self._tables_of_dags.items()
                if not tables.complete
            )
        if not readable:
            return False
        return may_access(f"user:{self._user.get_name()}", Access(table, (), SHOW))

    def health(self, health: TableHealth) -> TableHealth:
        """Return the health of a table without runs that are hidden from the user.

        Args:
            health: The health.
        """
        txn = health.oldest_txn
        if txn is None or self._sees_run(txn.run_token):
            return health
        return replace(health, oldest_txn=replace(txn, run_token=None))

    def history(self, entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
        """Return a history without runs that are hidden from the user.

        Args:
            entries: The history.
        """
        return [
            entry
            if self._sees_run(entry.run_token)
            else replace(entry, run_token=None, run_id=None)
            for entry in entries
        ]

    def streams(self, streams: Sequence[StreamState]) -> list[StreamState]:
        """Return the states of streams without runs that are hidden from the user.

        Args:
            streams: The states.
        """
        return [
            stream if self._sees_run(stream.run_token) else replace(stream, run_token=None)
            for stream in streams
        ]

    def mirrors(self, mirrors: Sequence[KnownMirror]) -> list[KnownMirror]:
        """Return mirrors without runs that are hidden from the user.

        Args:
            mirrors: The mirrors.
        """
        return [
            mirror if self._sees_run(mirror.run_token) else replace(mirror, run_token=None)
            for mirror in mirrors
        ]

    def _sees_run(self, token: str | None) -> bool:
        if token is None:
            return True
        dag_id = dag_of(token, instance_id())
        return dag_id is not None and self._reads_dag(dag_id)

    def _reads_dag(self, dag_id: str) -> bool:
        if dag_id not in self._dags:
            try:
                requires_access_dag("GET", None, dag_id)(self._request, self._user)
                self._dags[dag_id] = True
            except HTTPException:
                self._dags[dag_id] = False
        return self._dags[dag_id]

    def _reads_asset(self, asset_id: int) -> bool:
        details = AssetDetails(id=str(asset_id))
        return get_auth_manager().is_authorized_asset(
            method="GET", user=self._user, details=details
        )

    @cached_property
    def _assets(self) -> dict[str, list[int]]:
        """The ids of the assets of each table, of whichever metastore."""
        with create_session() as session:
            wanted = select(AssetModel.id, AssetModel.uri).where(
                AssetModel.uri.startswith("hiveacid://")
            )
            rows: Sequence[Any] = session.execute(wanted).all()
        found: dict[str, list[int]] = {}
        for asset_id, uri in rows:
            names = unquote(urlsplit(uri).path).strip("/").split("/")
            found.setdefault(".".join(names[:2]), []).append(asset_id)
        return found

    @cached_property
    def _tables_of_dags(self) -> dict[str, DagTables]:
        """The tables that each DAG works on."""
        with create_session() as session:
            wanted = (
                select(SerializedDagModel.dag_id, SerializedDagModel.dag_hash)
                .join(DagModel, DagModel.dag_id == SerializedDagModel.dag_id)
                .where(~DagModel.is_stale)
                .order_by(SerializedDagModel.created_at)
            )
            newest: dict[str, str] = {row[0]: row[1] for row in session.execute(wanted)}
        return {dag_id: _tables_of(dag_id, version) for dag_id, version in newest.items()}


@lru_cache(maxsize=10_000)
def _tables_of(dag_id: str, _version: str) -> DagTables:
    return tables_of_dag(dag_id) or DagTables()


def _page_access(request: Request, user: GetUserDep) -> PageAccess:
    return PageAccess(request, user)


UserAccess = Annotated[PageAccess, Depends(_page_access)]
