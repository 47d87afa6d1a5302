"""A real Chromium, driven over a pair of pipes by its own protocol: nothing but the browser need be installed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PATIENCE = 60.0
"""Seconds that an answer may take."""
# Chromium reads commands from file 3 and writes to file 4.
_LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
_OPTIONS = (
    "--headless", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-sandbox",  # which root cannot have; the pages are our own
)  # fmt: skip


class NoChromium(Exception):  # noqa: N818
    """Why there is none."""


def find_chromium() -> str:
    """Its path: what the environment variable CHROMIUM says, or one of the usual names."""
    given = os.environ.get("CHROMIUM")
    found = shutil.which(given) if given else next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        where = f"CHROMIUM={given} is no program" if given else f"none of {', '.join(NAMES)} is on the path"
        raise NoChromium(f"{where}; install Chromium (Debian, Ubuntu: apt-get install chromium), or set CHROMIUM")
    return found


class Chromium:
    """One browser; pages are its tabs."""

    def __init__(self, folder: Path):
        """`folder` is its own, for what it remembers."""
        to_browser, commands = _pipe()
        answers, from_browser = _pipe()
        launch = [sys.executable, "-c", _LAUNCH, str(to_browser), str(from_browser)]
        self._log = (folder / "chromium.log").open("w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(
            [*launch, find_chromium(), *_OPTIONS, f"--user-data-dir={folder / 'profile'}"],
            pass_fds=(to_browser, from_browser),
            stdout=self._log,
            stderr=self._log,
        )
        for end in (to_browser, from_browser):
            os.close(end)
        self._commands, self._answers = commands, answers
        self._unread = b""
        self._last_id = 0
        self.events: list[dict[str, Any]] = []
        try:
            self.version = str(self.call("Browser.getVersion")["product"])
        except NoChromium:
            self.close()
            raise

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """The browser's answer; what happens meanwhile is kept in `events`."""
        self._last_id += 1
        command = {"id": self._last_id, "method": method, "params": parameters}
        try:
            os.write(self._commands, json.dumps(command | ({"sessionId": session} if session else {})).encode() + b"\0")
        except BrokenPipeError:
            raise self._gone() from None
        while True:
            message = self._next()
            if message.get("id") == self._last_id:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def wait_for(self, method: str, **wanted: Any) -> dict[str, Any]:
        """The first event, seen or to come, of this name whose parameters have these values; it is taken away."""
        seen = 0
        while True:
            for event in self.events[seen:]:
                if event.get("method") == method and wanted.items() <= event["params"].items():
                    self.events.remove(event)
                    found: dict[str, Any] = event["params"]
                    return found
            seen = len(self.events)
            self.events.append(self._next())

    def open(self, path: Path) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        for domain in ("Page", "Network", "Log", "Runtime", "Accessibility"):
            page.call(f"{domain}.enable")
        page.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for("Page.loadEventFired")
        return page

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
        for end in (self._commands, self._answers):
            os.close(end)
        self._log.close()

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise NoChromium(f"Chromium said nothing for {PATIENCE:.0f} s{self._last_words()}")
            read = os.read(self._answers, 1 << 20)
            if not read:
                raise self._gone()
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _gone(self) -> NoChromium:
        return NoChromium(f"Chromium ended with code {self._process.wait(PATIENCE)}{self._last_words()}")

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = [line for line in self._log.read().splitlines() if line.strip()]
        return f"; it last wrote: {lines[-1]}" if lines else ""


@dataclass
class Page:
    browser: Chromium
    target: str
    session: str

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **parameters)

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"])
        return found["result"].get("value")

    def resize(self, width: int, height: int = 844) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def emulate(self, scheme: str = "light", media: str = "") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def press(self, key: str) -> None:
        code = {"Tab": 9, "Enter": 13, "ArrowRight": 39}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        known = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **known, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **known)

    def picture(self, *, clip: dict[str, float] | None = None) -> bytes:
        """PNG of what is in view, or of a part of the whole page."""
        part = {"clip": clip, "captureBeyondViewport": True} if clip else {}
        return base64.b64decode(self.call("Page.captureScreenshot", **part)["data"])

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"])

    def accessible(self) -> list[dict[str, Any]]:
        """What a screen reader is given: role, name and level of each thing, in order."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            {
                "role": node["role"]["value"],
                "name": node.get("name", {}).get("value", ""),
                "properties": {entry["name"]: entry["value"].get("value") for entry in node.get("properties", ())},
            }
            for node in nodes
            if not node["ignored"]
        ]

    def events(self, *methods: str) -> list[dict[str, Any]]:
        """Parameters of what happened in this page so far, of these kinds."""
        return [
            event["params"]
            for event in self.browser.events
            if event.get("sessionId") == self.session and event.get("method") in methods
        ]

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)


def _pipe() -> tuple[int, int]:
    """Both ends above the numbers that Chromium uses."""
    ends = os.pipe()
    moved = [fcntl(end, F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
