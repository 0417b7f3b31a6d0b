"""Chromium without a screen, driven over pipes by its own protocol: pressed keys, and the visible page.

Nothing here runs a script in a page, since the gateway's pages forbid scripts. The tests read the focus from the
accessibility tree, like a screen reader.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rehearsal.requirements import browser

WORDS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-proxy-server", "--no-first-run")
QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync")
ANSWER_SECONDS = 30
KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "Space": (32, " ")}
MOST_TABS = 40
PHONE, DESK = (390, 844), (1280, 900)


@dataclass
class Browser:
    """A page of the browser; `urls` has the address of each network request."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    session: str = ""
    urls: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """HTTP statuses of the loaded documents."""
    complaints: list[str] = field(default_factory=list)
    """Warnings and errors of the browser: blocked by the page's policy, or failed requests."""
    loads: int = 0
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Returns the result of a command; keeps events that come before it."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        message |= {"sessionId": self.session} if self.session else {}
        self.writer.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = await self._message()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])

    async def _message(self) -> dict[str, Any]:
        raw = await asyncio.wait_for(self.reader.readuntil(b"\0"), ANSWER_SECONDS)
        message: dict[str, Any] = json.loads(raw[:-1])
        values = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.urls.append(values["request"]["url"])
            case "Network.responseReceived" if values["type"] == "Document":
                self.statuses.append(values["response"]["status"])
            case "Log.entryAdded" if values["entry"]["level"] in ("warning", "error"):
                self.complaints.append(values["entry"]["text"])
            case "Page.loadEventFired":
                self.loads += 1
        return message

    async def loaded(self, loads: int) -> None:
        """Returns once the browser has loaded this many pages."""
        while self.loads < loads:
            await self._message()

    async def open(self, url: str) -> None:
        """Shows the page."""
        loads = self.loads + 1
        await self.call("Page.navigate", url=url)
        await self.loaded(loads)

    async def sized(self, size: tuple[int, int], scheme: str = "light") -> None:
        """Sets the window's size and the preferred colour scheme."""
        width, height = size
        more = {"deviceScaleFactor": 1, "mobile": size == PHONE}
        await self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, **more)
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def press(self, key: str) -> None:
        """Presses and releases a key."""
        code, text = KEYS[key]
        values = {"key": text or key, "code": key, "windowsVirtualKeyCode": code}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **values, **({"text": text} if text else {}))
        await self.call("Input.dispatchKeyEvent", type="keyUp", **values)

    async def type(self, text: str) -> None:
        """Types the text into the focused element."""
        await self.call("Input.insertText", text=text)

    async def nodes(self) -> list[tuple[str, str, bool]]:
        """Returns role and name of each node of the accessibility tree, and True for the focused one."""
        nodes = (await self.call("Accessibility.getFullAXTree"))["nodes"]
        shown = [node for node in nodes if not node["ignored"]]
        return [(_value(node, "role"), _value(node, "name"), _has_focus(node)) for node in shown]

    async def tab_to(self, name: str) -> None:
        """Moves the focus to the field or button of this name with only the Tab key."""
        passed = []
        for _ in range(MOST_TABS):
            await self.press("Tab")
            focused = [(role, label) for role, label, is_focused in await self.nodes() if is_focused]
            passed += focused
            if any(label == name and role != "RootWebArea" for role, label in focused):
                return
        raise AssertionError(f"no Tab reaches {name!r}, but these: {passed}")

    async def submit(self, button: str, **fields: str) -> None:
        """Reaches and fills each field of a form and presses the button, only by keys."""
        loads = self.loads + 1
        for name, text in fields.items():
            await self.tab_to(name)
            await self.type(text)
        await self.tab_to(button)
        await self.press("Enter")
        await self.loaded(loads)

    async def html(self) -> str:
        """Returns the HTML of the current document."""
        root = (await self.call("DOM.getDocument"))["root"]
        return str((await self.call("DOM.getOuterHTML", nodeId=root["nodeId"]))["outerHTML"])

    async def address(self) -> str:
        """Returns the address in the address bar."""
        history = await self.call("Page.getNavigationHistory")
        return str(history["entries"][history["currentIndex"]]["url"])

    async def width(self) -> int:
        """Returns the page's width in pixels, including the part outside the window."""
        return int((await self.call("Page.getLayoutMetrics"))["cssContentSize"]["width"])

    async def picture(self) -> bytes:
        """Returns a PNG of the whole page."""
        shot = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])


def _value(node: dict[str, Any], name: str) -> str:
    return str(node.get(name, {}).get("value", "")).strip()


def _has_focus(node: dict[str, Any]) -> bool:
    return any(entry["name"] == "focused" and entry["value"]["value"] for entry in node.get("properties", ()))


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Browser]:
    """Yields a browser with an empty page, closed at the end of the block."""
    (to_read, theirs_out), (theirs_in, to_write) = os.pipe(), os.pipe()
    command = [str(browser()), *WORDS, *QUIET, f"--user-data-dir={folder}/profile", "--remote-debugging-pipe"]
    shell = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
    with (folder / "browser.log").open("wb") as log:
        started = await asyncio.create_subprocess_exec(
            "bash", "-c", shell, "browser", *command, pass_fds=(theirs_in, theirs_out), stdout=log, stderr=log
        )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield await _attached(to_read, to_write)
    finally:
        os.close(to_read)
        os.close(to_write)
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        await started.wait()


async def _attached(to_read: int, to_write: int) -> Browser:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=2**26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(to_read), "rb"))
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(os.dup(to_write), "wb")
    )
    page = Browser(reader, asyncio.StreamWriter(transport, protocol, reader, loop))
    target = (await page.call("Target.createTarget", url="about:blank"))["targetId"]
    page.session = (await page.call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
    for domain in ("Page", "Network", "Log", "DOM", "Accessibility"):
        await page.call(f"{domain}.enable")
    return page
