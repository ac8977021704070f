"""HiveAcidErasedSensor: waits for the certificate of an erasure."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.tasks import task_failure
from airflow_hiveacid.sensors.condition import ConditionSensor
from airflow_hiveacid.triggers.condition import Condition, Poller
from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError
from hiveacid.jobs.erase_job import require_folder, require_request
from hiveacid.jobs.fields import is_task_output, is_template
from hiveacid.metastore.authorizer import user_of
from hiveacid.settings import setting

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True)
class Erased(Condition):
    """Nothing delays a request any more; see HiveAcidErasedSensor.

    A record in a shared folder decides on the tables: each poll asks whether the user may erase them.
    """

    request: str
    folder: str
    user: str

    def validate(self) -> None:
        """Check the name and the folder."""
        require_request(self.request)
        require_folder(self.folder)

    def poll(self, poller: Poller) -> dict[str, Any] | None:
        """Return the request, once a worker can continue it or it has a certificate."""
        from hiveacid.erasure.requests import Eraser
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.records.signatures import SigningKey

        # The key is a file of the workers, which continue the request.
        key = SigningKey.readable()
        with MetastoreClient(poller.metastore) as client:
            waits = Eraser(client, self.folder, user=self.user, key=key).delays(self.request)
        for wait in waits:
            poller.log.info("%s waits for a %s: %s", wait.table, wait.kind, wait.reason)
        return None if waits else {"request": self.request, "folder": self.folder}


class HiveAcidErasedSensor(ConditionSensor):
    """Waits until an erasure has a certificate, and continues the request when that is possible.

    A poll only reads: the cursors of consumers, notes on mirrors, and the folders with files that hold
    keys. When nothing delays the request, the worker compacts, cleans, searches all files, and issues
    the certificate.

    The XCom value is the report of the request, with the location of its certificate.

    Example::

        HiveAcidErasedSensor(task_id="erased", request="{{ ds }}", deferrable=True, timeout=30 * 86400)

    :param request: The name of the request. (templated)
    :param folder: The folder of requests and certificates; by default the option ``erasures`` of
        [hive_acid]. (templated)
    :param metastore_conn_id: The metastore.
    :param metastore_patience: How long the metastore or HDFS may be unreachable, or a ticket
        expired: until then the sensor warns and polls again, then the task fails. In mode
        ``reschedule`` it requires Airflow 3.3; in earlier versions the task fails at once.
    :param deferrable: Wait in the triggerer instead of on a worker.
    """

    template_fields: Sequence[str] = ("request", "folder")
    text_fields: ClassVar[Sequence[str]] = template_fields

    def __init__(self, *, request: str, folder: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not is_task_output(request) and not is_template(request):
            require_request(request)
        self.request = request
        self.folder = folder

    def execute_complete(self, context: "Context", event: dict[str, Any]) -> Any:
        """Continue the request, and wait again if something delays it."""
        value = super().execute_complete(context, event)
        if value is not None:
            return value
        try:
            trigger = self._trigger(context)
        except HiveAcidError as error:
            raise task_failure(error) from None
        self.defer(
            trigger=trigger,
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def _condition(self, context: "Context") -> Erased:
        return Erased(self.request, self.folder or setting("erasures"), user_of(self.dag_id))

    def _value(self, state: Any) -> Any:
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from hiveacid.erasure.requests import Eraser
        from hiveacid.metastore.client import MetastoreClient

        options = HiveAcidMetastoreHook(self.metastore_conn_id).options()
        with MetastoreClient(options).patient() as client:
            eraser = Eraser(client, state["folder"], user=user_of(self.dag_id))
            report = eraser.advance(state["request"]).report()
        for wait in report.waits:
            self.log.info("%s waits for a %s: %s", wait.table, wait.kind, wait.reason)
        return None if report.certificate is None else report.to_dict()
