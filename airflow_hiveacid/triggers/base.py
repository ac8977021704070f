"""The common base of the triggers."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from airflow.triggers.base import BaseTrigger
from asgiref.sync import sync_to_async

_Result = TypeVar("_Result")


class StoredTrigger(BaseTrigger):
    """A trigger whose parameters are attributes with plain values."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments that create an equal trigger."""
        class_ = type(self)
        arguments = {name: getattr(self, name) for name in inspect.signature(class_).parameters}
        return f"{class_.__module__}.{class_.__qualname__}", arguments


async def ask_airflow(function: Callable[..., _Result], *args: Any, **kwargs: Any) -> _Result:
    """Call a function of Airflow without blocking the other triggers.

    It must go through sync_to_async: in other threads, calls of 3.1 would wait for an event loop
    that isn't the triggerer's. By itself, that forgets the message of a cancellation, by which
    Airflow knows that on_kill is due.
    """
    return await asyncio.shield(sync_to_async(function)(*args, **kwargs))
