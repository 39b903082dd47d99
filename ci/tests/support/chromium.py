"""Drives a headless Chromium through its DevTools pipe: two file
descriptors and JSON, no port and no package.

Protocol: https://chromedevtools.github.io/devtools-protocol/ (``--remote-debugging-pipe``: the
browser reads file descriptor 3 and writes 4, messages end with a zero byte).
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = shlex.split(
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-extensions --hide-scrollbars "
    "--remote-debugging-pipe"
)
#: Moves the two ends of the pipes to 3 and 4 in the child, whatever
#: numbers they have, and becomes the browser.
_EXEC = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execvp(sys.argv[3], sys.argv[3:])"
)


def find_browser() -> str | None:
    """Path of a Chromium, or ``None``."""
    return next(filter(None, map(shutil.which, NAMES)), None)


#: What Chromium answers to who asks a page something while another one takes its place (``crdtp``
#: and V8's inspector: ``kInspectedTargetNavigatedOrClosed``, ``ensureContext``,
#: ``ContextDestroyed``).
NAVIGATED = (
    "Inspected target navigated or closed",
    "Execution context was destroyed",
    "Cannot find context with specified id",
    "Cannot find default execution context",
)


#: Seconds for an answer, and until a condition holds.
LIMIT_S = 60.0


class PageError(Exception):
    """The page or the browser did something a test must not overlook."""


class Navigated(PageError):
    """The page that was asked made room for another one before it answered."""


class Page:
    """One tab. ``problems`` gathers console errors, exceptions and broken policies; ``requests``
    all URLs that lead out of the page.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], to_browser: int, from_browser: int
    ) -> None:
        self._process = process
        self._to = to_browser
        self._from = from_browser
        self._buffer = b""
        self._count = 0
        self._session = ""
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                if "error" in answer:
                    reason = answer["error"]["message"]
                    raise (Navigated if reason.startswith(NAVIGATED) else PageError)(
                        f"{method}: {reason}"
                    )
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._from], [], [], LIMIT_S)[0]:
                raise PageError(f"the browser did not answer within {LIMIT_S} s")
            data = os.read(self._from, 1 << 20)
            if not data:
                raise PageError(f"the browser ended with status {self._process.wait()}")
            self._buffer += data
        text, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, parameters: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in (
            "error",
            "warning",
            "assert",
        ):
            values = (row.get("value", row.get("description")) for row in parameters["args"])
            self.problems.append(" ".join(map(str, values)))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(
            ("data:", "blob:")
        ):
            self.requests.append(parameters["request"]["url"])

    def open(
        self,
        url: str,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        ready: bool = True,
    ) -> None:
        """Load a page and wait until its script says it is ready (``<html data-ready>``);
        ``ready=False``: it has no script. A narrow window is a phone's.
        """
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        self._look("", dark)
        self._call("Page.navigate", url=url)
        loaded = f"document.readyState === 'complete' && location.href === {json.dumps(url)}"
        self.wait("document.documentElement?.dataset.ready === 'yes'" if ready else loaded)

    def evaluate(self, expression: str) -> Any:
        """Value of a JavaScript expression.

        :raises Navigated: another page took this one's place meanwhile.
        :raises PageError: the expression throws.
        """
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise PageError(answer["exceptionDetails"]["exception"].get("description", expression))
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a JavaScript condition holds, on whatever page is there by then."""
        deadline = time.monotonic() + LIMIT_S
        while not self._holds(condition):
            if time.monotonic() > deadline:
                raise PageError(f"never became true: {condition}; problems: {self.problems}")
            time.sleep(0.05)

    def _holds(self, condition: str) -> bool:
        try:
            return bool(self.evaluate(f"Boolean({condition})"))
        except Navigated:
            return False

    def text(self, place: str = "main") -> str:
        """What a reader sees of an element."""
        return str(self.evaluate(f"document.querySelector({place!r}).innerText"))

    @property
    def needed_width(self) -> int:
        """Of the page, in CSS pixels: more than its window has where something sticks out."""
        return int(self.evaluate("document.documentElement.scrollWidth"))

    def press(self, key: str) -> None:
        """Press and release a key, by its name (``Tab``, ``Enter``)."""
        about = {"key": key, "code": key, "windowsVirtualKeyCode": {"Tab": 9, "Enter": 13}[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", **about, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", **about)

    @contextmanager
    def without_script(self) -> Iterator[None]:
        """Pages opened meanwhile run no script of theirs."""
        self._call("Emulation.setScriptExecutionDisabled", value=True)
        try:
            yield
        finally:
            self._call("Emulation.setScriptExecutionDisabled", value=False)

    @contextmanager
    def on_paper(self, dark: bool) -> Iterator[None]:
        """The page as it is printed from a screen in that theme."""
        self._look("print", dark)
        try:
            yield
        finally:
            self._look("", dark)

    def _look(self, media: str, dark: bool) -> None:
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media=media, features=[theme])

    def choose(self, form: str, label: str, text: str) -> None:
        """Choose an option of a select by its text, as a reader does."""
        self.evaluate(
            f"""(() => {{
                const node = document.querySelector('#{form} select[aria-label="{label}"]');
                node.value = [...node.options].find((option) => option.textContent === {json.dumps(text)}).value;
                node.dispatchEvent(new Event("change"));
            }})()"""
        )

    def show_curves(self) -> None:
        """Go to the curves of a report, which are drawn when they are looked at."""
        self.evaluate("document.getElementById('curves').scrollIntoView()")
        self.wait("document.querySelector('#charts figure').dataset.drawn")

    def click(self, x: float, y: float) -> None:
        """Move the pointer to a place of the window and click there."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


@contextmanager
def open_browser(profile: Path) -> Iterator[Page]:
    """Start a browser with a fresh profile folder, give one page, end the browser."""
    program = find_browser()
    if program is None:
        raise PageError(f"none of {', '.join(NAMES)} is on PATH")
    (child_in, to_browser), (from_browser, child_out) = os.pipe(), os.pipe()
    # Clear of 3 and 4, so that neither overwrites the other when they are moved there.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (child_in, child_out)]
    command = [sys.executable, "-c", _EXEC, *map(str, high), program, *FLAGS]
    process = subprocess.Popen(
        [*command, f"--user-data-dir={profile}"],
        pass_fds=high,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for fd in (child_in, child_out, *high):
        os.close(fd)
    try:
        yield Page(process, to_browser, from_browser)
    finally:
        os.close(to_browser)
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(from_browser)
