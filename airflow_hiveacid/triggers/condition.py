"""Conditions that sensors wait for, on a worker or in the triggerer."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import field
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Self

from airflow.triggers.base import TriggerEvent

from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.patience import PATIENCE, Patience
from airflow_hiveacid.triggers.base import THREADS, StoredTrigger, ask_airflow
from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError
from hiveacid.jobs import codec
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import ErrorReport


def _permit(_: Iterable[str]) -> None:
    """Permit reads of any tables."""


@dataclass(frozen=True, slots=True)
class Poller:
    """The task or the trigger that polls a condition.

    Attributes:
        metastore: The metastore.
        log: Its logger.
        require_access: Receives the names of tables before they are read, and raises an error to
            refuse access.
        memory: Objects that a condition keeps between polls of one process.
        store: The storage between the processes of a rescheduled sensor, since Airflow 3.3.
    """

    metastore: MetastoreOptions
    log: Any
    require_access: Callable[[Iterable[str]], None] = _permit
    memory: dict[str, Any] = field(default_factory=dict)
    store: Any = None


class Condition(ABC):
    """A state of tables that a sensor waits for.

    A subclass is a frozen dataclass of values that ``codec`` reads: Airflow stores those of a
    deferred sensor. DAG files import its module, so that ``poll`` imports heavy modules by itself.
    """

    # The time limit of a poll in the triggerer.
    poll_seconds: ClassVar[float] = 600

    @abstractmethod
    def validate(self) -> None:
        """Check the values, after templates were rendered.

        :raises InvalidJob: A value is invalid.
        """

    @property
    def server(self) -> str | None:
        """The server that a poll waits for, besides the metastore."""
        return None

    def connected(self) -> Self:
        """Return the condition with what Airflow's connections add, which is never stored."""
        return self

    @abstractmethod
    def poll(self, poller: Poller) -> Any:
        """Return the result, as plain values; None as long as the condition does not hold.

        :param poller: The task or the trigger that polls.
        """

    def store(self) -> dict[str, Any]:
        """Return the class and the values, as an argument of a trigger.

        :raises InvalidJob: A value must not be stored.
        """
        class_ = type(self)
        return {"class": f"{class_.__module__}.{class_.__qualname__}", **codec.encode(self)}

    @staticmethod
    def restore(record: Mapping[str, Any]) -> "Condition":
        """Return the condition that was stored."""
        module, _, name = record["class"].rpartition(".")
        class_: type[Condition] = getattr(import_module(module), name)
        values = {key: value for key, value in record.items() if key != "class"}
        condition: Condition = codec.decode(class_, values, "condition")
        return condition


class HiveAcidConditionTrigger(StoredTrigger):
    """Polls the condition of a deferred sensor, and tolerates a short outage of the metastore.

    :param condition: The condition, or its stored values.
    :param metastore_conn_id: The metastore.
    :param poke_interval: Seconds between two polls.
    :param patience: For how many seconds the metastore may be away.
    """

    def __init__(
        self,
        *,
        condition: Condition | dict[str, Any],
        metastore_conn_id: str,
        poke_interval: float,
        patience: float = PATIENCE.total_seconds(),
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.condition = condition.store() if isinstance(condition, Condition) else condition
        self.metastore_conn_id = metastore_conn_id
        self.poke_interval = poke_interval
        self.patience = patience

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Repeat the poll in a thread, because Thrift and listings block."""
        event: dict[str, Any]
        try:
            restored_condition = Condition.restore(self.condition)
            # Not of the connected one: an error may name the server, but no secret.
            server = self.server(restored_condition.server or self.metastore_conn_id)
            condition = await ask_airflow(restored_condition.connected)
            options = await ask_airflow(HiveAcidMetastoreHook(self.metastore_conn_id).options)
            poll = partial(condition.poll, Poller(options, self.log))
            patience = Patience(timedelta(seconds=self.patience))
            while True:
                try:
                    result = await THREADS.run(server, poll, condition.poll_seconds)
                except HiveAcidError as error:
                    if not patience.tolerates(error):
                        raise
                    self.log.warning("%s Looking again in %s s.", error, self.poke_interval)
                else:
                    if result is not None:
                        break
                    patience.answered()
                await asyncio.sleep(self.poke_interval)
            event = {"status": "found", "found": result}
        except HiveAcidError as error:
            event = {"status": "error", "error": codec.encode(ErrorReport.of(error))}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]
