"""The gateway's pages in a real browser: used only by keys, without other sites' content or forms."""

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
PASSAGES = "hello world\nthe cat sat on the mat"
FORMS = {
    "/try": ("Send", {"Message": "Who sat on the mat?", "Most tokens of the answer": "100"}),
    "/try/embed": ("Embed", {"Texts, each on a line": "the cat sat on the mat\na helpful assistant"}),
    "/try/rerank": ("Rank", {"Question": "who sat on the mat", "Passages, each on a line": PASSAGES}),
    "/usage": ("Show", {}),
    "/": ("Show its models and usage", {}),
}
PRICES = {
    "llama": {"prompt": 30.0, "cached": 3.0, "completion": 120.0, "currency": "EUR"},
    "nomic": {"prompt": 1.5, "cached": 1.5, "completion": 1.5, "currency": "EUR"},
}
ANSWER = Script((Event("The cat sat on the mat."), Event("", finish="stop", tokens=7, cached=0)))
PICTURES = REPOSITORY / "rehearsal"
BUDGETS = {"tokens_per_day": 200_000, "tokens_per_month": 2_000_000}
COUNTED = 'data-label="requests">3<'
"""Numbers on the usage page: its three requests, which are counted within a second or two."""
MOST_LOOKS = 60


@contextlib.asynccontextmanager
async def shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Process, Browser, str]]:
    """Yields a gateway process that counts usage, a browser, and the gateway's address."""
    (folder / "state").mkdir()
    monkeypatch.setenv("STATE_DIRECTORY", str(folder / "state"))
    async with process(folder, PRICES, BUDGETS) as running, opened(folder) as page:
        running.triton.script = ANSWER
        yield running, page, f"http://127.0.0.1:{running.port}"


async def filled_in(page: Browser, url: str, path: str) -> str:
    """Returns the page that answers the form at this path; usage is read once it counts all earlier requests."""
    button, fields = FORMS[path]
    await page.open(f"{url}{path}")
    await page.submit(button, **{"API key": KEY, **fields})
    text = await page.html()
    for _ in range(MOST_LOOKS if path == "/usage" else 0):
        if COUNTED in text:
            break
        await page.submit(button, **{"API key": KEY})
        text = await page.html()
    return text


def keep(path: str, more: str, picture: bytes) -> None:
    """Updates the README's picture of the page if `GOLDEN=write` is set."""
    if os.environ.get("GOLDEN") == "write":
        name = path.strip("/").replace("/", "-") or "page"
        (PICTURES / f"gateway-{name}{more}.png").write_bytes(picture)


@in_loop
async def test_every_page_works_by_keys_alone_and_asks_only_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shown(tmp_path, monkeypatch) as (running, page, url):
        await page.sized(DESK)
        texts = {}
        for path in FORMS:
            texts[path] = await filled_in(page, url, path)
            assert await page.address() == f"{url}{path}"
            keep(path, "", await page.picture())
        models = [request.model for request in running.triton.requests]
    assert models == ["llama", "nomic", "bge_v2"]
    assert set(page.statuses) == {200}
    assert "The cat sat on the mat." in texts["/try"] and "a helpful assistant" in texts["/try/embed"]
    assert texts["/try/rerank"].index("the cat sat on the mat</th>") < texts["/try/rerank"].index("hello world</th>")
    assert COUNTED in texts["/usage"] and "Usage of acme" in texts["/usage"] and "0.0014 EUR" in texts["/usage"]
    assert f"Usage of {KEY[:7]}…" in texts["/"]
    assert all("budget of this key for the month" in texts[path] for path in ("/", "/usage"))
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
        for path in FORMS:
            await filled_in(page, url, path)
            widths[path] = await page.width()
            if scheme == "dark":
                keep(path, "-phone", await page.picture())
    assert widths == dict.fromkeys(FORMS, PHONE[0])


@in_loop
async def test_a_page_of_another_site_sends_no_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(tmp_path, monkeypatch) as (running, page, url):
        inputs = f'<input name="key" value="{KEY}"><input name="message" value="hello">'
        form = f'<form method="post" action="{url}/try">{inputs}<button>Win</button></form>'
        await page.open(f"data:text/html,{form}")
        await page.submit("Win")
        text = await page.html()
        assert (page.statuses[-1], running.triton.requests) == (403, [])
    assert "a page of another site sent this form" in text
