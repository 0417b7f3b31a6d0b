"""`/try`, `/try/embed` and `/try/rerank`: a form is the request of an API's client, and its answer a page."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.forms import fields_of, is_of_another_site
from tests.gateway.asking import KEY, OTHER_KEY, Answer, RunningGateway, chat, in_loop, key_line, lines, running_gateway
from tests.gateway.test_page import FORM, text_of
from tests.gateway.triton import Event, Script

FORMS = {
    "/try": {"message": "the cat"},
    "/try/embed": {"input": "the cat\n\nthe mat"},
    "/try/rerank": {"query": "cat", "documents": "the mat\nthe cat"},
}
BODIES = {
    "/v1/chat/completions": chat("the cat", max_tokens=100),
    "/v1/embeddings": {"model": "nomic", "input": ["the cat", "the mat"]},
    "/v2/rerank": {"model": "bge", "query": "cat", "documents": ["the mat", "the cat"]},
}


async def sent(front: RunningGateway, path: str, headers: dict[str, str] | None = None, **fields: str) -> Answer:
    """Returns the page that answers a form."""
    form = {"key": KEY, **({"max_tokens": "100"} if path == "/try" else {}), **FORMS.get(path, {}), **fields}
    return await front.ask(path, urlencode(form).encode(), key=None, headers=FORM | (headers or {}))


def field_of(body: bytes, name: str) -> str:
    """Returns the text of a field of the page's form."""
    page = body.decode()
    area = re.search(rf'<textarea id="{name}"[^>]*>\n(.*?)</textarea>', page, re.S)
    value = area or re.search(rf'<input [^>]*name="{name}"[^>]* value="([^"]*)"', page)
    assert value, name
    return html.unescape(value[1])


@in_loop
async def test_each_page_answers_with_the_first_model_of_its_kind(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        chatted, embedded, ranked = [await sent(front, path) for path in FORMS]
    assert {page.status for page in (chatted, embedded, ranked)} == {200}
    assert {page.headers["content-type"] for page in (chatted, embedded, ranked)} == {"text/html; charset=utf-8"}
    assert "You the cat Model Hello wörld" in text_of(chatted.body)
    assert re.search(r"the cat 1\.0000 4 .*the mat -?[01]\.\d{4} 4 ", text_of(embedded.body))
    assert re.search(
        r"passage, the best first score the \w+ [\d.-]+ the \w+ [\d.-]+ bge: \d+ tokens", text_of(ranked.body)
    )


@in_loop
async def test_a_form_counts_as_the_request_of_a_client_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Audit, limits and usage are equal, line by line, for both ways of a request."""
    (tmp_path / "usage").mkdir()
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "usage"))
    names = ("tenant", "key", "endpoint", "model", "status", "end", "prompt_tokens", "completion_tokens")
    async with running_gateway(tmp_path, usage_days=30) as front:
        limits = {"requests_per_minute": 60, "tokens_per_minute": 5000, "concurrent": 4, "tokens_per_day": 9000}
        front.keys_file.write_text(json.dumps({"keys": [key_line(KEY, "acme", **limits)]}))
        await front.gateway.refresh()
        pages = [await sent(front, path) for path in FORMS]
        front.gateway.usage.count(datetime.now(UTC))
        usage_of_pages = front.gateway.usage.of_tenant("acme", "")
        answers = [await front.ask(path, body) for path, body in BODIES.items()]
        front.gateway.usage.count(datetime.now(UTC))
        usage = front.gateway.usage.of_tenant("acme", "")
        spent = front.gateway.budgets.usage(front.gateway.keys.holder(f"Bearer {KEY}".encode())).spent
        models = [(request.model, request.tensors) for request in front.triton.requests]
    audit = [tuple(line[name] for name in names) for line in lines(capsys)]
    assert audit[:3] == audit[3:]
    assert models[:3] == models[3:]
    counts = ("requests", "prompt_tokens", "completion_tokens", "errors")
    assert [[2 * row[name] for name in counts] for row in usage_of_pages] == [
        [row[name] for name in counts] for row in usage
    ]
    assert len(usage) == 3 and (spent.requests, spent.running) == (6, 0)
    names_of_limits = [{name for name in answer.headers if "ratelimit" in name} for answer in (*pages, *answers)]
    assert names_of_limits[0] and names_of_limits[:3] == names_of_limits[3:]


@pytest.mark.parametrize("path", FORMS)
@in_loop
async def test_a_refused_form_shows_the_endpoints_status_and_message(tmp_path: Path, path: str) -> None:
    async with running_gateway(tmp_path) as front:
        front.keys_file.write_text(json.dumps({"keys": [key_line(KEY, "acme", requests_per_minute=1)]}))
        await front.gateway.refresh()
        unknown = await sent(front, path, key="eh-nobody")
        wrong = await sent(front, path, model="nothing-of-the-kind")
        limited = await sent(front, path)
    assert [page.status for page in (unknown, wrong, limited)] == [401, 404, 429]
    assert "unknown, revoked or expired" in text_of(unknown.body)
    assert "the model `nothing-of-the-kind` does not exist" in text_of(wrong.body)
    assert 'role="alert"' in limited.body.decode() and "retry-after" in limited.headers
    name = next(iter(FORMS[path]))
    assert field_of(limited.body, name) == FORMS[path][name], "what was typed is not lost"


@in_loop
async def test_a_chat_continues_from_the_turns_of_its_page(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        first = await sent(front, "/try", system="be brief", message="hello")
        earlier = field_of(first.body, "earlier")
        second = await sent(front, "/try", message="the cat", system="be brief", earlier=earlier)
        whole = [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "Hello wörld"},
            {"role": "user", "content": "the cat"},
        ]
        await front.ask("/v1/chat/completions", {**chat(max_tokens=100), "messages": whole})
        _first, by_page, by_client = front.triton.requests
    assert field_of(first.body, "message") == ""
    assert by_page.tensors == by_client.tensors
    assert "You hello Model Hello wörld You the cat Model Hello wörld" in text_of(second.body)


@pytest.mark.parametrize("earlier", ["no JSON", "{}", "[1,2]", '["a turn alone"]', "[[]]", json.dumps([""] * 202)])
@in_loop
async def test_turns_that_no_page_wrote_are_refused(tmp_path: Path, earlier: str) -> None:
    async with running_gateway(tmp_path) as front:
        page = await sent(front, "/try", earlier=earlier)
        assert (page.status, front.triton.requests) == (400, [])
    assert "begin a new chat" in text_of(page.body)


@in_loop
async def test_reasoning_has_its_own_section_and_a_truncated_answer_is_marked(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, llm={"reasoning_parser": "qwen3"}) as front:
        front.triton.script = Script((Event("<think>why</think>because"), Event("", finish="length", tokens=5)))
        page = await sent(front, "/try")
    text = text_of(page.body)
    assert "Reasoning why" in text and "Model because" in text
    assert "The answer ends at the most tokens that were asked for." in text


@in_loop
async def test_no_page_log_or_metric_shows_keys_and_no_log_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canary = "the-canary-sings-at-seven"
    async with running_gateway(tmp_path) as front:
        for path, fields in FORMS.items():
            for key in (KEY, "eh-wrong-0123456789"):
                page = await sent(front, path, key=key, **dict.fromkeys(fields, canary))
                assert key not in page.body.decode() + str(page.headers)
            page = await sent(front, path, model=canary, max_tokens=canary, task=canary, earlier=canary)
            assert page.status >= 400
        metrics = (await front.ask("/metrics", key=None)).body.decode()
    printed = capsys.readouterr()
    for word in (canary, KEY, "eh-wrong-0123456789"):
        assert word not in printed.out + printed.err + metrics


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://[", "host": "gateway"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "http://gateway", "host": "gateway"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"origin": "http://gateway:8080", "host": "gateway:8080"}, 200),
        ({"origin": "https://llm.example.com", "host": "10.0.0.7"}, 200),
        ({}, 200),
    ],
)
@pytest.mark.parametrize("path", ["/", "/usage", "/try"])
@in_loop
async def test_a_form_of_another_site_is_refused(
    tmp_path: Path, path: str, headers: dict[str, str], status: int
) -> None:
    async with running_gateway(tmp_path, url="https://llm.example.com") as front:
        assert (await sent(front, path, headers)).status == status
        assert bool(front.triton.requests) == (path == "/try" and status == 200)


@pytest.mark.parametrize("path", ["/", "/page.css", "/usage", *FORMS])
@in_loop
async def test_without_pages_there_is_no_such_path(tmp_path: Path, path: str) -> None:
    async with running_gateway(tmp_path, pages=False) as front:
        assert (await front.ask(path)).status == 404
        assert (await sent(front, path)).status == 404
        assert front.triton.requests == []


@in_loop
async def test_forms_are_bounded_typed_and_refuse_a_key_in_the_address(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        large = await sent(front, "/try", message="x" * 70_000)
        many = await sent(front, "/try/embed", input="\n".join("abcdefghijklmnopq"))
        typed = await front.ask("/try", {"message": "hello"})
        in_address = await front.ask("/try", key=None, query=f"key={KEY}")
        method = await front.ask("/try", method="DELETE")
        bytes_held = front.gateway._bodies.total()
    statuses = [answer.status for answer in (large, many, typed, in_address, method)]
    assert statuses == [413, 400, 415, 400, 405]
    assert "this page takes up to 16 texts; these are 17" in text_of(many.body)
    assert bytes_held == 0


@in_loop
async def test_the_form_offers_only_the_models_of_the_key_and_of_its_kind(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        nobody = await front.ask("/try/rerank", key=None)
        holder = await front.ask("/try/rerank", key=OTHER_KEY)
        chatting = await sent(front, "/try", key=OTHER_KEY)
    assert '<option value="bge">' not in nobody.body.decode()
    assert '<option value="bge">' in holder.body.decode()
    assert (chatting.status, "llama" in chatting.body.decode()) == (400, False)


@in_loop
async def test_the_form_of_a_gateway_without_keys_has_no_key_field(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, has_keys=False) as front:
        page = await front.ask("/try", key=None)
        answer = await sent(front, "/try", key="")
    assert 'name="key"' not in page.body.decode() and '<option value="llama">' in page.body.decode()
    assert (answer.status, "Hello wörld" in text_of(answer.body)) == (200, True)


TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\0"), max_size=40)


@given(TEXTS, TEXTS)
@settings(max_examples=200, deadline=None)
def test_a_form_is_decoded_to_the_typed_text(name: str, text: str) -> None:
    """Browsers send other line ends, which are converted."""
    raw = urlencode({"name": name, "text": text.replace("\n", "\r\n")}).encode()
    assert fields_of(raw) == {"name": name, "text": text}


@given(st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_bytes_that_are_not_a_form_are_refused_with_a_value_error(raw: bytes) -> None:
    try:
        fields = fields_of(raw)
    except ValueError:
        return
    assert b"%" in raw or "".join(name + text for name, text in fields.items()).isascii()


@given(st.dictionaries(st.sampled_from([b"origin", b"host", b"sec-fetch-site"]), st.binary(max_size=20)))
@settings(max_examples=200, deadline=None)
def test_no_browser_header_breaks_a_form_request(headers: dict[bytes, bytes]) -> None:
    is_foreign = is_of_another_site(headers, "https://llm.example.com")
    if headers.get(b"sec-fetch-site") == b"cross-site":
        assert is_foreign
    if not headers.get(b"sec-fetch-site") and not headers.get(b"origin"):
        assert not is_foreign


@pytest.mark.parametrize(
    "text", ['"><script>alert(1)</script>', "</textarea><b>", "{{ 7 * 7 }}", "\n\nthe mat\n", "&amp;"]
)
@in_loop
async def test_typed_markup_is_plain_text_on_the_page_and_in_the_prompt(tmp_path: Path, text: str) -> None:
    async with running_gateway(tmp_path) as front:
        page = await sent(front, "/try", message=text, system=text)
        again = await sent(front, "/try", message=text, max_tokens="many")
        system = [{"role": "system", "content": text}, {"role": "user", "content": text}]
        await front.ask("/v1/chat/completions", {**chat(max_tokens=100), "messages": system})
        by_page, by_client = front.triton.requests
    assert by_page.tensors == by_client.tensors
    assert field_of(page.body, "system") == text
    assert json.loads(field_of(page.body, "earlier"))[0] == text
    assert (again.status, field_of(again.body, "message")) == (400, text)
    assert "<script" not in page.body.decode() + again.body.decode()
    assert "<b>" not in page.body.decode() + again.body.decode()
