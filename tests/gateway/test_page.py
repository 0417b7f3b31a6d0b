"""`GET /`: the page with a key and without one; it loads no other site and escapes all client text."""

import asyncio
import html
import json
import re
import threading
from pathlib import Path

import pytest

from tests.gateway.asking import CHAT, KEY, OTHER_KEY, chat, in_loop, key_line, running_gateway

PATHS = ("/", "/try", "/try/embed", "/try/rerank", "/usage")
FORM = {"content-type": "application/x-www-form-urlencoded"}


def text_of(body: bytes) -> str:
    """Returns the visible text of the page, with its white space collapsed."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body.decode())).split())


@in_loop
async def test_the_page_without_a_key_shows_only_a_key_form(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/", key=None)
    assert answer.status == 200
    assert '<form method="post" action="/"' in answer.body.decode()
    assert "llama" not in answer.body.decode()
    assert "curl http://127.0.0.1:8080/v1/chat/completions" in text_of(answer.body)


@pytest.mark.parametrize("by_header", [True, False])
@in_loop
async def test_the_page_of_a_key_shows_its_models_and_its_usage(tmp_path: Path, by_header: bool) -> None:
    async with running_gateway(tmp_path) as front:
        limits = {"requests_per_minute": 60, "tokens_per_minute": 5000, "concurrent": 4}
        front.keys_file.write_text(json.dumps({"keys": [key_line(KEY, "acme", **limits, expires=4070908800)]}))
        await front.gateway.refresh()
        usage = (await front.chat()).json()["usage"]
        if by_header:
            answer = await front.ask("/")
        else:
            answer = await front.ask("/", f"key={KEY}".encode(), key=None, headers=FORM)
    text = text_of(answer.body)
    assert "Tenant acme; ends 2099-01-01 00:00 UTC." in text
    assert "llama LLM 200 tokens ready" in text
    assert "nomic:query embedder 512 tokens a text 4 dimensions ready" in text
    assert "requests in the last minute 1 of 60" in text
    assert f"tokens in the last minute {usage['total_tokens']} of 5,000" in text
    assert "requests under way 0 of 4" in text
    assert KEY not in answer.body.decode()
    assert '-d \'{"model": "llama", "messages": [{"role": "user", "content": "Hello!"}]}\'' in text


@in_loop
async def test_a_key_sees_its_own_models_only(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/", key=OTHER_KEY)
    assert ("bge" in text_of(answer.body), "llama" in text_of(answer.body)) == (True, False)


@in_loop
async def test_the_page_refuses_an_unknown_key(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask("/", b"key=eh-nobody", key=None, headers=FORM)
    assert (answer.status, "unknown, revoked or expired" in text_of(answer.body)) == (401, True)


@in_loop
async def test_the_page_of_a_gateway_without_keys_asks_for_no_key(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, has_keys=False, url="https://llm.example.com") as front:
        answer = await front.ask("/", key=None)
    assert "<form" not in answer.body.decode()
    assert 'client = OpenAI(base_url="https://llm.example.com/v1", api_key="none")' in text_of(answer.body)


@in_loop
async def test_the_pages_load_nothing_from_other_sites_and_run_no_script(tmp_path: Path) -> None:
    """The pages contain no such reference or script, and the content security policy forbids both."""
    async with running_gateway(tmp_path) as front:
        answers = [await front.ask(path, key=None) for path in ("/page.css", *PATHS)]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'")
        assert "unsafe" not in policy and "script" not in policy
        assert (answer.headers["x-content-type-options"], answer.headers["cache-control"]) == ("nosniff", "no-store")
        assert answer.headers["referrer-policy"] == "same-origin"
    style, *pages = (answer.body.decode() for answer in answers)
    for page in pages:
        assert set(re.findall(r'(?:href|src|action)="([^"]*)"', page)) == {"/page.css", *PATHS}
        assert "<script" not in page and "style=" not in page
        assert not [tag for tag in re.findall(r"<[^>]*", page) if " on" in tag]
    assert "url(" not in style and "@import" not in style


@in_loop
async def test_names_of_models_and_tenants_are_text(tmp_path: Path) -> None:
    name = "<b>\"'x"
    async with running_gateway(tmp_path, aliases={name: {"model": "llama"}, "a": {"model": "llama"}}) as front:
        front.keys_file.write_text(json.dumps({"keys": [key_line(KEY, name)]}))
        await front.gateway.refresh()
        body = (await front.ask("/", headers={"host": name})).body.decode()
    assert "<b>" not in body
    assert name in html.unescape(body)


@in_loop
async def test_a_form_of_another_kind_or_size_is_refused(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        assert (await front.ask("/", {"key": KEY}, key=None)).status == 404
        assert (await front.ask("/", b"key=" + b"x" * 9000, key=None, headers=FORM)).status == 413
        assert (await front.ask("/", key=None, query=f"key={KEY}")).status == 400
        assert (await front.ask("/", method="DELETE")).status == 405
        assert (await front.ask("/page.css", b"", headers=FORM)).status == 405


@in_loop
async def test_no_log_line_has_text_of_a_request_or_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Valid and invalid requests on every path, with a phrase in each text; no line has the phrase or the key."""
    canary = "the-canary-sings-at-seven"
    requests = [
        (CHAT, chat(canary)),
        (CHAT, chat(canary, stream=True)),
        (CHAT, chat(canary, n=canary)),
        (CHAT, chat(canary, **{canary: 1})),
        (CHAT, {**chat(canary), "model": canary}),
        ("/v1/completions", {"model": "llama", "prompt": canary}),
        ("/v1/embeddings", {"model": "nomic", "input": canary}),
        ("/v2/rerank", {"model": "bge", "query": canary, "documents": [canary]}),
        ("/rerank", {"query": canary, "texts": [canary]}),
        ("/tokenize", {"model": "llama", "prompt": canary}),
        (f"/v1/{canary}", {}),
        (f"/v1/models/{canary}", None),
        ("/", f"key={canary}".encode()),
        ("/", f"key={KEY}".encode()),
    ]
    async with running_gateway(tmp_path) as front:
        statuses = [
            (await front.ask(path, body, headers=FORM if path == "/" else {})).status for path, body in requests
        ]
        page = (await front.ask("/metrics", key=None)).body.decode()
    printed = capsys.readouterr()
    audit = [json.loads(line) for line in printed.out.splitlines()]
    assert [line["status"] for line in audit] == statuses
    assert {"time", "tenant", "key", "model", "prompt_tokens", "first_token_ms", "duration_ms"} <= audit[0].keys()
    for word in (canary, KEY, "wörld"):
        assert word not in printed.out + printed.err + page


@in_loop
async def test_many_pages_at_once_leave_threads_for_the_count_of_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 pages of one key delayed each count by two seconds, and with it budgets of other processes (2026-11-28)."""
    running, together = list[int](), threading.Event()

    def look(*_: object) -> list[tuple[str, str, str, int]]:
        running.append(1)
        if len(running) > 1:
            together.set()
        together.wait(0.05)
        running.pop()
        return []

    monkeypatch.setattr("gateway.page.usage_by_day", look)
    async with running_gateway(tmp_path) as front:
        pages = await asyncio.gather(*(front.ask("/") for _ in range(8)))
    assert [page.status for page in pages] == [200] * 8
    assert not together.is_set()
