"""Calls of HDFS: conversion of its errors into system errors, and retries of temporary failures.

The client waits for a NameNode that restarts, or for a failover, as long as
``dfs.client.failover.*`` of hdfs-site.xml allow, except for the call during which the NameNode was
killed. That call is repeated here, and safe mode is awaited.
"""

import errno
import os
import re
import time
from collections.abc import Callable
from typing import TypeVar

from hiveacid.storage.hdfs_login import login_refused

T = TypeVar("T")

# The longest wait for the end of safe mode, and the pause between two checks.
PATIENCE_SECONDS = 120.0
_PAUSE_SECONDS = 0.5

_EXCEPTION = re.compile(r'(?:Fatal)?RPCError\("(?:\w+[.$])*(?P<name>\w+)", "(?P<text>.*)"\)', re.S)
_NUMBER = re.compile(r"\(os error (\d+)\)")
_PASSES = frozenset({"SafeModeException", "RetriableException"})
_ERRNO = {
    "AccessControlException": errno.EACCES,
    "AuthorizationException": errno.EACCES,
    "NSQuotaExceededException": errno.EDQUOT,
    "DSQuotaExceededException": errno.EDQUOT,
    "QuotaByStorageTypeExceededException": errno.EDQUOT,
    "FileAlreadyExistsException": errno.EEXIST,
    "ParentNotDirectoryException": errno.ENOTDIR,
    "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
    "InvalidPathException": errno.EINVAL,
    # All NameNodes were on standby during the client's attempts.
    "StandbyException": errno.EHOSTDOWN,
    "ObserverRetryOnActiveException": errno.EHOSTDOWN,
}


class NotYet(ConnectionError):
    """The NameNode ended before it answered, or has only just started: a retry is possible."""


def ask(call: Callable[..., T], *arguments: object) -> T:
    """Make an idempotent call to the NameNode; retry while it stops, starts or is in safe mode.

    Args:
        call: A method of the client.
        arguments: The arguments of the method.
    """
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return once(call, *arguments)
        except NotYet:
            if time.monotonic() > give_up:
                raise
        time.sleep(_PAUSE_SECONDS)


def once(call: Callable[..., T], *arguments: object) -> T:
    """Make one call to the NameNode that must not be repeated without a check; see ``ask``.

    Raises:
        NotYet: The outcome of the call is unknown, and another call is possible.
    """
    try:
        return call(*arguments)
    except (OSError, RuntimeError) as error:
        raise _in_words(error) from error


def _in_words(error: OSError | RuntimeError) -> OSError:
    """Convert the client's errors into system errors with their numbers."""
    text = str(error)
    if isinstance(error, RuntimeError):
        if match := _EXCEPTION.search(text):
            message = match["text"].replace('\\"', '"').split("\\n")[0]
            message = f"{match['name']}: {message}"
            if match["name"] in _PASSES:
                return NotYet(errno.EIO, message)
            number = _ERRNO.get(match["name"], errno.EIO)
            return login_refused(message) or OSError(number, message)
        return login_refused(text) or OSError(errno.EIO, text)
    if isinstance(error, FileExistsError):
        return FileExistsError(errno.EEXIST, "exists already")
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if isinstance(error, IsADirectoryError):
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if numbered := _NUMBER.search(text):
        return OSError(int(numbered[1]), text)
    cut = "RPC listener disconnected" in text
    return NotYet(errno.ECONNABORTED, text) if cut else error
