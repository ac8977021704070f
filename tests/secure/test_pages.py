"""Pages that ask for Kerberos (SPNEGO) get the ticket of this process."""

import base64
import ctypes
import urllib.request
from collections.abc import Iterator
from ctypes import byref, c_size_t, c_uint32, c_void_p
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from airflow_hiveacid.cluster.yarn import ask
from hiveacid.errors import InvalidConnection
from tests.secure.kdc import Kdc

pytestmark = pytest.mark.secure


class Text(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


def accepted(proof: bytes) -> bytes:
    """The principal that a proof is of, by the key of the service."""
    gss = ctypes.CDLL("libgssapi_krb5.so.2")
    minor, context, name = c_uint32(), c_void_p(), c_void_p()
    memory = ctypes.create_string_buffer(proof, len(proof))
    given, answer = Text(len(proof), ctypes.cast(memory, c_void_p)), Text()
    major = gss.gss_accept_sec_context(
        *(byref(minor), byref(context), None, byref(given), None, byref(name)),
        *(None, byref(answer), None, None, None),
    )
    assert major == 0, (major, minor.value)
    shown = Text()
    assert gss.gss_display_name(byref(minor), name, byref(shown), None) == 0
    return ctypes.string_at(shown.value, shown.length)


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        scheme, _, proof = (self.headers.get("Authorization") or "").partition(" ")
        if scheme != "Negotiate":
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Negotiate")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        user = accepted(base64.b64decode(proof))
        self.send_response(200)
        self.send_header("Content-Length", str(len(user)))
        self.end_headers()
        self.wfile.write(user)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def page(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("KRB5_KTNAME", f"FILE:{kdc.keytab}")
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()


def test_a_page_that_asks_for_kerberos_gets_a_ticket(page: str, kdc: Kdc, cache: Path) -> None:
    with pytest.raises(InvalidConnection, match="localhost asks for Kerberos"):
        ask(urllib.request.Request(page), 20)
    kdc.log_in("alice", cache)
    assert ask(urllib.request.Request(page), 20).decode() == kdc.principal("alice")
