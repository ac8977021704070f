"""Take all pictures of pages: ``PYTHONPATH=. python docs/take_pictures.py http://127.0.0.1:8080 PASSWORD``.

These are the address and the password that `hiveacid demo` has printed; let it work for half an
hour before. Pictures with large tables, many tables or streams come from a separate Airflow, with
the tables of the tests.

The picture of the dashboard is not among them: its panels are drawn by Perses.

Each picture is taken wide and narrow, light and dark, as docs/images/NAME[-narrow][-dark].png. Look at all of them.
Besides Java, it needs Chromium and pngquant from the packages of the system.
"""

import argparse
import json
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.records.stream_places import StreamPlaces
from hiveacid.rules.names import TableRef
from hiveacid.storage.folder import Storage
from tests.live.airflow_processes import AirflowProcesses
from tests.live.chromium import Chromium
from tests.live.page_airflow import DETAILS, FRAME, ROWS, PageAirflow
from tests.live.page_tables import (
    held,
    make_busy,
    make_checked,
    make_erasures,
    make_many,
    make_mirrors,
    make_streams,
    make_three,
)

IMAGES = Path(__file__).parent / "images"
Screen = tuple[tuple[int, int], str]
SCREENS: Sequence[Screen] = (((1366, 768), ""), ((420, 860), "-narrow"))
MANY = 2000
PAGE = "/plugin/hiveacid"
# Measured, and not about to be measured again.
AT_REST = f"/^Measured.* s$/.test({FRAME}.querySelector('#status')?.innerText)"
# A table, with its history and its buttons.
OPENED = (
    f"{AT_REST} && {FRAME}.{DETAILS} && {FRAME}.querySelector('#versions .opener')"
    f" && {FRAME}.querySelector('#maintenance button:enabled')"
)


def main() -> None:
    """Take them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("address", help="where the playground is: http://127.0.0.1:8080")
    parser.add_argument("password", help="that of admin, as it has printed it")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        of_playground(Playground(told.address, told.password), Path(folder))
        of_tests_tables(Path(folder))
        of_failed_task(Path(folder))


class Playground:
    """A playground that runs.

    Args:
        url: The address of its Airflow.
        password: Of its admin.
    """

    def __init__(self, url: str, password: str) -> None:
        self.url = url
        body = {"username": "admin", "password": password}
        self.token = str(self._ask("/auth/token", body=body)["access_token"])

    def newest_task(self) -> str:
        """The path of the task that has written last."""
        query = "state=success&order_by=-run_after&limit=1"
        runs = self._ask(f"/api/v2/dags/shop_load/dagRuns?{query}", self.token)["dag_runs"]
        run_id = quote(runs[0]["dag_run_id"], safe="")
        return f"/dags/shop_load/runs/{run_id}/tasks/load"

    def _ask(
        self, path: str, token: str = "", body: object = None
    ) -> dict[str, list[dict[str, str]]]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        with urllib.request.urlopen(
            urllib.request.Request(f"{self.url}{path}", data, headers)
        ) as answer:
            return dict(json.load(answer))


class Camera:
    """Takes pictures of an Airflow.

    Args:
        url: The address.
        token: The token of a user who may read, and start DAGs.
        folder: The folder for the browser's files.
    """

    def __init__(self, url: str, token: str, folder: Path) -> None:
        self._url = url
        self._token = token
        self._folder = folder

    def take(
        self,
        name: str,
        path: str,
        ready: str,
        then: Callable[[Chromium], None] | None = None,
        screens: Sequence[Screen] = SCREENS,
        end: str | None = None,
    ) -> None:
        """Take one thing on each screen, light and dark.

        Args:
            name: Of the pictures.
            path: The address to open.
            ready: Holds in the page as soon as all of it is there.
            then: The action before the picture.
            screens: The sizes, and the suffixes of the names of the pictures.
            end: The expression for the height of the pictures; None is that of the screen.
        """
        for (width, height), narrow in screens:
            profile = tempfile.mkdtemp(dir=self._folder)
            with Chromium(Path(profile), width, height) as browser:
                browser.cookie(self._url, "_token", self._token)
                for scheme, dark in (("light", ""), ("dark", "-dark")):
                    browser.prefer(scheme)
                    browser.open("about:blank")
                    browser.open(f"{self._url}{path}")
                    browser.wait_until(ready, 300)
                    if then is not None:
                        then(browser)
                    file = IMAGES / f"{name}{narrow}{dark}.png"
                    browser.screenshot(file, end)
                    shrink(file)
                    print(file, file.stat().st_size, flush=True)


def shrink(file: Path) -> None:
    """Keep 256 colours."""
    subprocess.run(["pngquant", "--force", "--output", file, "256", file], check=True)


def of_playground(playground: Playground, folder: Path) -> None:
    """Take the playground's tables, and the log and the SQL of its newest write."""
    camera = Camera(playground.url, playground.token, folder)
    listed = f"{FRAME}.{ROWS} === 4 && {AT_REST}"
    camera.take("playground", PAGE, listed)
    camera.take("playground-table", f"{PAGE}?table=shop.orders", OPENED)
    camera.take("playground-versions", f"{PAGE}?table=shop.orders", OPENED, to_versions)
    task = playground.newest_task()
    camera.take("log", task, "document.body?.innerText.includes('5 statements: ')", to_log)
    sql = f"{task}/rendered_templates"
    camera.take(
        "rendered", sql, "document.querySelector('code')?.innerText.includes('MERGE')", to_sql
    )


def to_versions(browser: Chromium) -> None:
    """Scroll to the versions."""
    browser.evaluate(f"{FRAME}.querySelector('#versions').scrollIntoView()")


def to_log(browser: Chromium) -> None:
    """On a narrow screen Airflow's log can be read where it takes all of it."""
    if browser.evaluate("window.innerWidth < 640"):
        browser.evaluate(
            """document.querySelector('[aria-label="Press f for fullscreen"]').click()"""
        )
        browser.wait_until(
            "[...document.querySelectorAll('[role=dialog]')].some((each) => each.innerText.includes('5 statements: '))"
        )


def to_sql(browser: Chromium) -> None:
    """On a narrow screen Airflow's page is moved aside to read it."""
    if browser.evaluate("window.innerWidth < 640"):
        browser.evaluate("document.querySelector('code').scrollIntoView({ inline: 'start' })")


def of_tests_tables(folder: Path) -> None:
    """Take pictures of another Airflow with tables whose files have sizes, and no content."""
    with EmbeddedMetastore(directory=folder / "metastore") as metastore:
        airflow = PageAirflow(folder / "airflow", metastore)
        try:
            airflow.start()
            camera = Camera(airflow.url, airflow.token("rosa"), folder)
            of_erasures(airflow, metastore.options, folder)
            of_checks(camera, airflow, metastore.options)
            of_three(camera, airflow, metastore.options)
            of_many(camera, airflow, metastore.options)
        finally:
            airflow.processes.stop()


def of_erasures(airflow: PageAirflow, options: MetastoreOptions, folder: Path) -> None:
    """Take the requests to erase keys, and the certificate of one, as an administrator sees them."""
    with MetastoreClient(options) as client:
        make_erasures(client, airflow.erasures, airflow.key_file)
        airflow.measured(2)
        camera = Camera(airflow.url, airflow.token("admin"), folder)
        path, told = f"{PAGE}?table=erasures", f"{FRAME}.querySelector('#details summary')"
        camera.take("page-erasures", path, f"{AT_REST} && {told}")
        camera.take("page-erasures-certificate", path, f"{AT_REST} && {told}", to_certificate)
        client.drop_database("crm", cascade=True)


def of_checks(camera: Camera, airflow: PageAirflow, options: MetastoreOptions) -> None:
    """Take a table whose rows are checked, with a staged change."""
    with MetastoreClient(options) as client:
        ref = make_checked(client)
        airflow.measured(1)
        told = f"{FRAME}.querySelector('#staged')?.innerText.includes('Expires')"
        path = f"{PAGE}?table={ref.full_name}"
        camera.take("page-checks", path, f"{OPENED} && {told}", to_staged)
        client.drop_table(ref)


def of_failed_task(folder: Path) -> None:
    """Take the log of a task whose rows violate checks."""
    dag = folder / "load_payments.py"
    dag.write_text(_FAILING_DAG)
    with EmbeddedMetastore(directory=folder / "payments") as metastore:
        host, port = metastore.uri.removeprefix("thrift://").split(":")
        connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
        with MetastoreClient(metastore.options) as client:
            columns = [HiveColumn("id", "bigint"), HiveColumn("amount", "int")]
            client.create_table(HiveTable.new(TableRef("default", "payments"), columns))
        with AirflowProcesses(
            folder / "load",
            [dag],
            connections={"hive_acid_default": connection},
            environment={"AIRFLOW__API__DEFAULT_WRAP": "True"},
        ) as airflow:
            airflow.wait_for_dags(dag.stem)
            airflow.api.unpause(dag.stem)
            run_id = airflow.api.trigger(dag.stem)
            airflow.api.wait_for_run(dag.stem, run_id, "failed")
            path = f"/dags/{dag.stem}/runs/{quote(run_id, safe='')}/tasks/load"
            told = "document.body?.innerText.includes('Nothing became visible')"
            Camera(airflow.api.url, airflow.api.token(), folder).take(
                "log-check", path, told, screens=SCREENS[:1], end=_STACK
            )


# Where the stack of an error begins, which has the paths of a machine.
_STACK = """(() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        if (texts.currentNode.data.trim().startsWith('File')) {
            const range = document.createRange();
            range.selectNode(texts.currentNode);
            return range.getBoundingClientRect().top;
        }
    }
})()"""
_FAILING_DAG = """
from airflow.sdk import DAG

from airflow_hiveacid import HiveAcidInsertOperator, QuerySource
from airflow_hiveacid.jobs import InRange, InsertJob, NotNull, Unique

with DAG("load_payments"):
    HiveAcidInsertOperator(
        task_id="load",
        job=InsertJob(
            target="default.payments",
            source=QuerySource("VALUES (1, 120), (2, -45), (2, 300), (null, 70)"),
            by_position=True,
            run_in="worker",
            checks=[
                NotNull(columns=["id"]),
                Unique(columns=["id"]),
                InRange(column="amount", min=0, severity="warn"),
            ],
        ),
    )
"""


def of_three(camera: Camera, airflow: PageAirflow, options: MetastoreOptions) -> None:
    """Take a table with a past, streams and mirrors of others, and two DAGs."""
    with MetastoreClient(options) as client:
        make_three(client)
        customers = Storage.of(client.get_table(TableRef("default", "customers")).folder)
    with held(options, "default.orders"):
        airflow.measured(1, "busy")
        camera.take("details", f"{PAGE}?table=default.orders", OPENED)
    for state in make_streams():
        StreamPlaces(customers, state.name).write_state(state)
    told = f"{FRAME}.querySelector('#streams')?.innerText.includes('40,000 rows in 2.6 s')"
    path = f"{PAGE}?table=default.customers"
    camera.take("page-streams", path, f"{OPENED} && {told}", to_streams)
    with MetastoreClient(options) as client:
        make_mirrors(client, TableRef("default", "orders"))
    told = f"{FRAME}.querySelector('#mirrors')?.innerText.includes('2 versions behind')"
    path = f"{PAGE}?table=default.orders"
    camera.take("page-mirrors", path, f"{OPENED} && {told}", to_mirrors)
    button = "document.querySelector('button')"
    for name, dag in (
        ("dag", "automatic_compaction"),
        ("dag-maintenance", "warehouse_maintenance"),
    ):
        camera.take(name, f"/dags/{dag}", button, to_graph, SCREENS[:1])


def of_many(camera: Camera, airflow: PageAirflow, options: MetastoreOptions) -> None:
    """Take a list of many tables."""
    make_many(options, MANY)
    airflow.restart()
    names = [row["table"] for row in airflow.measured(MANY + 3)["rows"]]
    with MetastoreClient(options) as client:
        make_busy(client, names[3:18:4])
    with held(options, *names[1:18:3]):
        busy = f"{FRAME}.querySelector('#count-busy')?.innerText === '6'"
        camera.take("page", PAGE, f"{FRAME}.{ROWS} === 50 && {busy} && {AT_REST}")


def to_streams(browser: Chromium) -> None:
    """Scroll to the streams."""
    browser.evaluate(f"{FRAME}.querySelector('#streams').scrollIntoView()")


def to_certificate(browser: Chromium) -> None:
    """Open the certificate, and scroll to its request."""
    browser.evaluate(f"{FRAME}.querySelector('#details summary').click()")
    browser.wait_until(f"{FRAME}.querySelector('#details pre')")
    browser.evaluate(f"{FRAME}.querySelector('.erasure:last-child').scrollIntoView()")


def to_staged(browser: Chromium) -> None:
    """Scroll to the staged changes, which the versions follow."""
    browser.evaluate(f"{FRAME}.querySelector('#staged').scrollIntoView()")


def to_mirrors(browser: Chromium) -> None:
    """Scroll to the mirrors."""
    browser.evaluate(f"{FRAME}.querySelector('#mirrors').scrollIntoView()")


def to_graph(browser: Chromium) -> None:
    """Show the DAG as a graph, and wait until it has been laid out and moved to where it fits."""
    graph = "[...document.querySelectorAll('button')].find((b) => /graph/i.test(b.ariaLabel))"
    browser.wait_until(graph)
    browser.evaluate(f"{graph}.click()")
    browser.wait_until("document.querySelectorAll('.react-flow__node').length >= 4")
    browser.wait_until(
        "/scale/.test(document.querySelector('.react-flow__viewport').style.transform)"
    )


if __name__ == "__main__":
    main()
