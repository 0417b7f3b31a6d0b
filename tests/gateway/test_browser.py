"""The gateway's pages in a real browser: by keys alone, nothing from elsewhere, and no form of another site."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rehearsal.places import REPOSITORY
from rehearsal.requirements import browser
from tests.gateway.asking import KEY, in_loop
from tests.gateway.browser import DESK, PHONE, Browser, opened
from tests.gateway.test_server import Process, process
from tests.gateway.triton import Event, Script

pytestmark = pytest.mark.skipif(
    not browser(), reason="no browser: python -m rehearsal requirements --install --tests --pictures"
)
FORMS = {
    "/try": ("Send", {"Message": "Who sat on the mat?", "Most tokens of the answer": "100"}),
    "/try/embed": ("Embed", {"Texts, each on a line": "the cat sat on the mat\na helpful assistant"}),
    "/try/rerank": ("Rank", {"Question": "Who sat?", "Passages, each on a line": "hello world\nthe cat sat"}),
    "/usage": ("Show", {}),
}
ANSWER = Script((Event("The cat sat on the mat."), Event("", finish="stop", tokens=7, cached=0)))
PICTURES = REPOSITORY / "rehearsal"


@contextlib.asynccontextmanager
async def shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Process, Browser, str]]:
    """A gateway's process that counts usage, a browser, and the gateway's address."""
    (folder / "state").mkdir()
    monkeypatch.setenv("STATE_DIRECTORY", str(folder / "state"))
    async with process(folder) as running, opened(folder) as page:
        running.triton.script = ANSWER
        yield running, page, f"http://127.0.0.1:{running.port}"


def keep(name: str, picture: bytes) -> None:
    """The README's picture is this one, where `GOLDEN=write` wants it anew."""
    if os.environ.get("GOLDEN") == "write":
        (PICTURES / f"gateway-{name}.png").write_bytes(picture)


@in_loop
async def test_every_page_works_by_keys_alone_and_asks_only_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shown(tmp_path, monkeypatch) as (running, page, url):
        await page.sized(DESK)
        texts = {}
        for path, (button, fields) in FORMS.items():
            await page.open(f"{url}{path}")
            await page.submit(button, **{"API key": KEY, **fields})
            texts[path] = await page.html()
            assert await page.address() == f"{url}{path}"
            keep(path.strip("/").replace("/", "-"), await page.picture())
        models = [request.model for request in running.triton.asked]
    assert models == ["llama", "nomic", "bge_v2"]
    assert set(page.statuses) == {200}
    assert "The cat sat on the mat." in texts["/try"] and "a helpful assistant" in texts["/try/embed"]
    assert "Usage of acme" in texts["/usage"]
    assert {request for request in page.urls if not request.startswith(url)} == set()
    assert page.complaints == []
    assert KEY not in "".join([*texts.values(), *page.urls])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@in_loop
async def test_a_phone_needs_no_sideways_scrolling_and_dark_pages_are_dark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    async with shown(tmp_path, monkeypatch) as (_running, page, url):
        await page.sized(PHONE, scheme)
        widths = {}
        for path, (button, fields) in FORMS.items():
            await page.open(f"{url}{path}")
            await page.submit(button, **{"API key": KEY, **fields})
            widths[path] = await page.width()
            if scheme == "dark":
                keep(f"{path.strip('/').replace('/', '-')}-phone", await page.picture())
    assert widths == dict.fromkeys(FORMS, PHONE[0])


@in_loop
async def test_a_page_of_another_site_sends_no_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(tmp_path, monkeypatch) as (running, page, url):
        inputs = f'<input name="key" value="{KEY}"><input name="message" value="hello">'
        form = f'<form method="post" action="{url}/try">{inputs}<button>Win</button></form>'
        await page.open(f"data:text/html,{form}")
        await page.submit("Win")
        text = await page.html()
        assert (page.statuses[-1], running.triton.asked) == (403, [])
    assert "sent by a page of another site" in text
