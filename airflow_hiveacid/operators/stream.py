"""HiveAcidStreamOperator: a StreamJob as an Airflow task."""

from typing import TYPE_CHECKING, Any

from airflow_hiveacid.cluster.abort import abort_run
from airflow_hiveacid.operators.spark import HiveAcidSparkOperator
from hiveacid.errors import HiveAcidError
from hiveacid.jobs.options import source_token
from hiveacid.jobs.stream_job import StreamJob

if TYPE_CHECKING:
    from hiveacid.records.stream_places import StreamPlaces


class HiveAcidStreamOperator(HiveAcidSparkOperator[StreamJob]):
    """Writes a stream into tables, exactly once: each micro-batch is one transaction.

    With ``trigger="available_now"`` it processes the data since the last run, and ends; otherwise
    it runs until ``run_for`` is over, or until the task is stopped. The next attempt, or the next
    run of the DAG, continues after the last committed batch.

    The XCom ``stream`` contains the stream's progress after every batch: batch, rows, rows per
    second, latency and backlog.

    Example::

        HiveAcidStreamOperator(
            task_id="orders",
            job=StreamJob(
                name="orders",
                source=StreamSource("json", {"path": "s3a://landing/orders"}, "id bigint, status string"),
                statements=[InsertJob(target="shop.orders", source=BatchSource())],
                checkpoint="s3a://checkpoints/orders",
                trigger="available_now",
            ),
        )

    The parameters below come on top of those of every Spark job, see HiveAcidSparkOperator.

    :param job: The source, and the statements for every batch. (templated)
    :param stop_seconds: Time for the current batch to end when the task is stopped; then the
        application is killed, which is safe too. Airflow kills the process of a task 5 seconds
        after its stop. With a longer time, a driver in a cluster then continues until its batch ends.
    """

    job_type = StreamJob

    def __init__(self, *, stop_seconds: float = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stop_seconds = stop_seconds

    def _end_work(self) -> None:
        """End the stream after its batch; kill it if that takes too long."""
        if self._spark_run is None or self._running is None:
            return
        tokens: tuple[str, ...] = ()
        try:
            places = _places_of(self._running)
            places.ask_to_stop()
            if self._spark_run.ends_within(self.stop_seconds):
                return
            place = places.read()
            tokens = () if place is None else (place.next_token, source_token(place.next_token))
        except HiveAcidError as error:
            self.log.warning("The stream could not be asked to stop: %s", error)
        abort_run(self._spark_run, self._running.metastore, tokens, self.log)


def _places_of(job: StreamJob) -> "StreamPlaces":
    # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.records.stream_places import StreamPlaces
    from hiveacid.rules.names import TableRef
    from hiveacid.storage.folder import Storage

    with MetastoreClient(job.connection) as client:
        folder = client.get_table(TableRef.parse(job.target)).folder
    return StreamPlaces(Storage.of(folder), job.name)
