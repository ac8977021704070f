"""Delegation tokens: replace the Kerberos ticket in the driver of a cluster, which has no ticket.

The submitter gets a token, and cancels it if it is certain that no driver holds it. The driver
repeatedly gets another token in time, and cancels all of them at its end. It does not renew tokens:
Hive Metastore 3.1 reports a new end for a renewed token but lets it expire at the old one. A killed
driver leaves its token to the metastore, which forgets it after a day unless configured otherwise.
"""

import logging
import os
import threading
from collections.abc import Sequence
from typing import Self

from hiveacid.errors import MetastoreError
from hiveacid.jobs.options import DELEGATION_TOKEN, MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.sasl.delegation_token import DelegationToken
from hiveacid.metastore.thrift import idl_txns

log = logging.getLogger(__name__)

# Pause between two attempts to reach a metastore that does not answer.
_RETRY_SECONDS = 5.0
# Regardless of the metastore's answer, two tokens are separated by a pause that a thread can wait.
_SHORTEST, _LONGEST = 0.1, 86400.0


def new_token(client: MetastoreClient) -> str:
    """Get a delegation token for the calling user."""
    return str(client.call(idl_txns.get_delegation_token, client.user, client.user))


def cancel_token(options: MetastoreOptions, token: str) -> None:
    """Cancel an unused delegation token; if this fails, the metastore lets the token expire.

    Args:
        options: The connection options of the metastore.
        token: The token.
    """
    _cancel(MetastoreClient(options), [token])


def _cancel(client: MetastoreClient, tokens: Sequence[str]) -> None:
    try:
        with client:
            for token in tokens:
                client.call(idl_txns.cancel_delegation_token, token)
    except MetastoreError as failure:
        log.warning("The delegation token is left to the metastore: %s", failure)


class TokenKeeper:
    """Keeps the delegation token of this process alive, in the body of a with statement."""

    def __init__(self, options: MetastoreOptions | None) -> None:
        """Prepare the renewal; it does nothing without a token.

        Args:
            options: The connection options of the metastore.
        """
        self._options = options
        self._tokens: list[str] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def __enter__(self) -> Self:
        options = self._options
        if options is not None and options.auth_mechanism == DELEGATION_TOKEN:
            assert options.token_env is not None
            DelegationToken.of(options)  # An invalid token fails here and not in the thread.
            self._client = MetastoreClient(options)
            self._variable = options.token_env
            self._tokens.append(os.environ[self._variable])
            self._thread = threading.Thread(target=self._keep, name="delegation token", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is None or self._process != os.getpid():
            return
        self._ended.set()
        self._thread.join(_RETRY_SECONDS)
        # The token that authenticates this connection is the last one.
        _cancel(self._client, self._tokens)

    def _keep(self) -> None:
        with self._client:
            pause = 0.0
            while not self._ended.wait(pause):
                try:
                    life = self._renewed()
                except (MetastoreError, ValueError) as failure:
                    log.warning("There is no new delegation token: %s", failure)
                    pause = _RETRY_SECONDS
                else:
                    log.info("The delegation token lives for %.0f seconds more.", life)
                    pause = min(max(life / 2, _SHORTEST), _LONGEST)

    def _renewed(self) -> float:
        """Get another token.

        Returns:
            Its lifetime in seconds by the metastore's clock. Any other clock may differ by some
                minutes, which Kerberos allows.
        """
        text = new_token(self._client)
        token = DelegationToken.parse(text)
        self._tokens.append(text)
        # The old token is not cancelled yet: another thread may be about to connect with it.
        os.environ[self._variable] = text
        # A new token's end does not change by this call, which is the way to query it.
        end = int(self._client.call(idl_txns.renew_delegation_token, text))
        return (end - token.first_day) / 1000
