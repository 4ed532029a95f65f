"""A headless Chromium, spoken to by the DevTools protocol over pipes: no package, no port.

References
----------
Chrome DevTools Protocol, https://chromedevtools.github.io/devtools-protocol: the domains Page,
Runtime, Log, Network and Emulation. ``--remote-debugging-pipe`` reads messages that end in a zero
byte from descriptor 3 and writes them to descriptor 4.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self

__all__ = ["Browser", "find_chromium"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def find_chromium() -> str | None:
    """Return the path of a Chromium or Chrome, or None where there is none."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page of a browser.

    Parameters
    ----------
    executable : str
        What :func:`find_chromium` returns.
    profile : Path
        An empty folder for its files.
    timeout_s : float
        How long an answer or a page may take.
    """

    def __init__(self, executable: str, profile: Path, timeout_s: float = 60.0) -> None:
        self._timeout_s = timeout_s
        self._count = 0
        self._rest = b""
        self._events: list[dict[str, Any]] = []
        self._session: str | None = None
        #: Messages of the console and of the network that are errors, with the page's address.
        self.errors: list[str] = []
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        # Descriptors 3 and 4 are what the browser reads and writes; a shell puts them there.
        command = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        options = [*_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", command, executable, *options],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        os.close(self._write)
        os.close(self._read)

    def open(self, url: str) -> None:
        """Go to a page and wait until it has been loaded."""
        self._events.clear()
        self._call("Page.navigate", url=url)
        deadline = time.monotonic() + self._timeout_s
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._receive(deadline)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript in the page; promises are awaited."""
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Return the value of an expression as soon as it is true."""
        deadline = time.monotonic() + self._timeout_s
        while not (value := self.evaluate(expression)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{expression} stayed {value!r} for {self._timeout_s} s")
            time.sleep(0.05)
        return value

    def prefer(self, scheme: str, width: int = 1280, height: int = 900) -> None:
        """Let pages see a reader who prefers ``"light"`` or ``"dark"``, and a window's size."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", features=features)
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def screenshot(self, path: Path) -> None:
        """Write what the window shows as a PNG."""
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self._timeout_s
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]  # type: ignore[no-any-return]

    def _receive(self, deadline: float) -> dict[str, Any]:
        """Return the next message; keep it where it is an event, and note errors."""
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._read, 1 << 20) if ready else b""
            if not data:
                raise TimeoutError(f"Chromium did not answer within {self._timeout_s} s")
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._events.append(message)
            self._note_error(message["method"], message.get("params", {}))
        return message

    def _note_error(self, method: str, event: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(event["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "assert"):
            self.errors.append(str(event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
            entry = event["entry"]
            self.errors.append(f"{entry['text']} {entry.get('url', '')}".rstrip())
        elif method == "Network.loadingFailed" and not event.get("canceled"):
            self.errors.append(f"not loaded: {event['errorText']} ({event['type']})")
