"""Options of a catalog of Iceberg, whose secrets come from a connection."""

from collections.abc import Mapping

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook

from hiveacid.errors import InvalidConnection, InvalidJob
from hiveacid.secret_text import secrets_of


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
