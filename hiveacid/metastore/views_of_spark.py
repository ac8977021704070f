"""Parameters of views that Spark has stored: its text alone does not define a view of Spark."""

from collections.abc import Sequence

from hiveacid.errors import UnsupportedTable
from hiveacid.metastore.catalog import HiveTable

# The prefixes of the parameters, which describe one text.
PREFIXES = ("view.", "spark.sql.")


def database_of(view: HiveTable) -> str:
    """Return the database of tables that the query of a view names without one.

    Raises:
        UnsupportedTable: Spark would look for them in another catalog.
    """
    catalog, *names = _numbered(view, "view.catalogAndNamespace.part.") or ("spark_catalog",)
    if catalog != "spark_catalog" or len(names) > 1:
        raise UnsupportedTable(
            f"The view {view.ref.full_name} reads tables of the catalog {catalog} of Spark.",
            remedy="Name catalog and database of each table in a query of your own.",
        )
    return names[0] if names else view.parameters.get("view.default.database", view.ref.database)


def outputs_of(view: HiveTable) -> Sequence[str]:
    """Return the columns of the query that are those of a view; empty if Spark stored none."""
    return _numbered(view, "view.query.out.col.")


def _numbered(view: HiveTable, prefix: str) -> Sequence[str]:
    """Return the values of the parameters for the elements of a list."""
    values: list[str] = []
    while (value := view.parameters.get(f"{prefix}{len(values)}")) is not None:
        values.append(value)
    return values
