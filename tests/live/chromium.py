"""A real Chromium, driven over the pipe of its DevTools protocol."""

import base64
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60


class Chromium:
    """One window of a browser without a screen.

    Args:
        profile: A new folder for its files.
        width: Of the window.
        height: Of the window.
    """

    def __init__(self, profile: Path, width: int = 1366, height: int = 768) -> None:
        self._size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._profile = profile
        self._sent = 0
        self._buffer = b""
        self._session: str | None = None
        # The errors of the page, of its program and of the browser.
        self.complaints: list[str] = []

    @staticmethod
    def program() -> str | None:
        return next(filter(None, map(shutil.which, NAMES)), None)

    def __enter__(self) -> Self:
        program = self.program()
        assert program is not None
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # The browser expects its pipe at 3 and 4.
        shell = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", shell, "bash", program, *self._options()],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        os.set_blocking(self._read, False)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", **self._size)
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def _options(self) -> list[str]:
        return [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={self._profile}",
        ]

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its answer."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._sent:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._listen(answer)

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert time.monotonic() < deadline, "the browser does not answer"
            try:
                self._buffer += os.read(self._read, 1 << 20)
            except BlockingIOError:
                time.sleep(0.005)
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def _listen(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(
                details.get("exception", details).get("description", str(details))
            )
        if event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.complaints.append(
                f"{parameters['entry']['text']} {parameters['entry'].get('url')}"
            )

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript, awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_until(self, expression: str, seconds: float = SECONDS) -> None:
        """Wait until an expression holds in the page."""
        deadline = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"not within {seconds} s: {expression}"
            time.sleep(0.1)

    def press(self, key: str, code: int) -> None:
        """Press a key, for example ("Tab", 9)."""
        text = "\r" if key == "Enter" else ""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def prefer(self, scheme: str) -> None:
        """As if the system were "light" or "dark"."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def cookie(self, url: str, name: str, value: str) -> None:
        self.call("Network.setCookie", url=url, name=name, value=value)

    def screenshot(self, file: Path, end: str | None = None) -> None:
        """Take a picture of the window, or of its part above the number that an expression has."""
        clip = {}
        if end is not None:
            width, height = self.evaluate(f"[window.innerWidth, {end}]")
            clip["clip"] = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", **clip)["data"]
        file.write_bytes(base64.b64decode(data))


needs_chromium = pytest.mark.skipif(Chromium.program() is None, reason="needs Chromium")
