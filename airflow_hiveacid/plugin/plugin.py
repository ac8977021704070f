"""The page "Hive ACID tables" in Airflow's navigation, and a tab of the same name on every DAG."""

from typing import Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import AirflowPlugin

_NAME = "Hive ACID tables"
# Three layers: a base below its deltas.
_ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' "
    "stroke-linejoin='round' stroke-linecap='round'>"
    "<defs><g id='i'><path d='M12 3 3 7.5l9 4.5 9-4.5z'/><path d='m3 12 9 4.5 9-4.5'/>"
    "<path d='m3 16.5 9 4.5 9-4.5'/></g></defs>"
    "<use href='#i' stroke='{}' stroke-width='4.4'/><use href='#i' stroke='{}' stroke-width='1.8'/>"
    "</svg>"
)


def _icon(halo: str, color: str) -> str:
    return f"data:image/svg+xml,{quote(_ICON.format(halo, color))}"


# An image does not follow the colours of the text beside it. In light mode no colour stands out both
# from the navigation and from its selected entry, which is dark: there the halo does.
_ICONS = {"icon": _icon("#ffffff", "#3f4a5f"), "icon_dark_mode": _icon("none", "#d4d4d8")}


class HiveAcidPlugin(AirflowPlugin):
    """Adds the page to Airflow; every process of Airflow loads this, so it imports next to nothing."""

    name = "hiveacid"
    # Relative, so that it holds below Airflow's own path, if it has one.
    external_views = [  # noqa: RUF012 (Airflow declares it as an attribute of instances)
        {
            # The page has no room for more.
            "name": "Hive ACID",
            "href": "hiveacid/",
            "url_route": "hiveacid",
            "destination": "nav",
            # Next to Dags and Assets, if Airflow supports that, and other plugins.
            "nav_top_level": True,
            **_ICONS,
        },
        {
            "name": _NAME,
            "href": "hiveacid/?dag_id={DAG_ID}",
            "url_route": "hiveacid-dag",
            "destination": "dag",
            **_ICONS,
        },
    ]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The routes of the page; only the API server asks for them."""
        from airflow_hiveacid.plugin.routes import app

        return [{"name": _NAME, "app": app, "url_prefix": "/hiveacid"}]
