"""The longest silence of a transaction is parsed in the server's notation."""

import pytest

from hiveacid.metastore.txn.heartbeat import txn_timeout_seconds


class Server:
    """Represents a server with a setting in a notation that the embedded one does not use."""

    def __init__(self, setting: str) -> None:
        self.setting = setting

    def config_value(self, name: str, default: str) -> str:
        return self.setting


@pytest.mark.parametrize(
    ("setting", "seconds"),
    [
        ("300s", 300),
        ("10s", 10),
        ("120", 120),
        ("300000ms", 300),
        ("5m", 300),
        ("5min", 300),
        ("1h", 3600),
        ("2days", 172800),
        ("45 sec", 45),
        ("", 300),
        ("soon", 300),
        ("9" * 5000, 300),
        ("٣s", 300),
        ("999999999999999999d", 2_592_000),
        ("0", 0.1),
    ],
)
def test_the_timeout_is_read_in_every_unit(setting: str, seconds: float) -> None:
    assert txn_timeout_seconds(Server(setting)) == pytest.approx(seconds)  # type: ignore[arg-type]
