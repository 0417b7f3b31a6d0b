"""Paths and bodies in other forms that clients send, refusals in the form that a client reads, and browsers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.gateway.asking import CHAT, chat, in_loop, running_gateway

RESPONSE = {"model": "llama", "input": "hello"}
MESSAGE = {"max_tokens": 9, **chat()}
RANKED = {"model": "bge", "query": "a", "documents": ["b"]}
ANTHROPIC = {"anthropic-version": "2023-06-01"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/v1/chat/completions", chat()),
        ("/v1/v1/messages", MESSAGE),
        ("/v1/v2/rerank", RANKED),
        ("/v1//chat/completions", chat()),
        ("//v1/chat/completions", chat()),
        ("/responses", RESPONSE),
        ("/responses/input_tokens", RESPONSE),
        ("/messages", MESSAGE),
        ("/messages/count_tokens", MESSAGE),
        ("/openai/responses", RESPONSE),
        ("/openai/models", None),
        ("/openai/v1/responses", RESPONSE),
    ],
)
@in_loop
async def test_a_base_address_of_another_form_reaches_the_path_that_is_meant(
    path: str, body: dict[str, object] | None, tmp_path: Path
) -> None:
    async with running_gateway(tmp_path) as front:
        assert (await front.ask(path, body)).status == 200


@pytest.mark.parametrize("path", ["//metrics", "/v1//metrics", "/v1/v1/metrics", "//health", "/openai/health"])
@in_loop
async def test_no_form_of_a_path_reaches_those_that_need_no_key(path: str, tmp_path: Path) -> None:
    """A balancer refuses only the plain forms."""
    async with running_gateway(tmp_path) as front:
        assert (await front.ask(path, key=None)).status == 404


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("GET", "/v1/responses/resp_1", "no response is stored here"),
        ("DELETE", "/v1/responses/resp_1", "no response is stored here"),
        ("POST", "/responses/resp_1/cancel", "no response is stored here"),
        ("POST", "/v1/conversations", "no response is stored here"),
        ("POST", "/v1/batches", "send each request by itself"),
        ("POST", "/v1/generate", "POST /v1/completions"),
        ("POST", "/pooling", "POST /v1/embeddings"),
        ("GET", "/v1/files", "nothing is stored here"),
        ("GET", "/v1/chat/completions/chatcmpl-1", "no answer is stored here"),
        ("POST", "/v1/audio/speech", "text only"),
        ("POST", "/v1beta/models/llama:generateContent", "no API of Gemini"),
        ("POST", "/completion", "no API of llama.cpp"),
        ("POST", "/v2/models/llama/infer", "no API of Triton"),
        ("GET", "/v2/health/ready", "no API of Triton"),
        ("POST", "/v1/realtime/client_secrets", "as events of POST /v1/chat/completions"),
        ("GET", "/v1/organization", "GET /v1/models"),
    ],
)
@in_loop
async def test_a_path_that_is_not_served_names_the_one_that_is(
    method: str, path: str, words: str, tmp_path: Path
) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(path, method=method)
    assert (answer.status, answer.error["code"]) == (404, "unknown_url")
    assert words in answer.error["message"]


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/messages/batches", {}),
        ("/v1/files", ANTHROPIC),
        ("/v1/models/nobody", ANTHROPIC),
    ],
)
@in_loop
async def test_anthropics_clients_read_every_refusal(path: str, headers: dict[str, str], tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(path, headers=headers)
    assert (answer.status, answer.json()["type"], answer.error["type"]) == (404, "error", "not_found_error")


@pytest.mark.parametrize("path", ["/embed_all", "/embed_sparse", "/predict", "/similarity", "/decode"])
@in_loop
async def test_teis_clients_read_every_refusal(path: str, tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(path, {"inputs": "a"})
    assert (answer.status, set(answer.json())) == (404, {"error", "error_type"})
    assert "POST /" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/api/chat", "/api/tags", "/api/show", "/api/v0/models", "/generate_stream"])
@in_loop
async def test_clients_of_ollama_and_tgi_read_where_to_turn(path: str, tmp_path: Path) -> None:
    """Their clients read `error` as a text."""
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(path, {"model": "llama"})
    assert answer.status == 404 and "with a base address that ends in /v1" in answer.json()["error"]


@in_loop
async def test_a_byte_order_mark_before_a_body_is_passed_over(tmp_path: Path) -> None:
    """PowerShell writes it. UTF-16 is refused."""
    text = json.dumps(chat())
    async with running_gateway(tmp_path) as front:
        marked = await front.ask(CHAT, text.encode("utf-8-sig"))
        long_ = await front.ask(CHAT, json.dumps(chat(metadata={"a": "x" * 70_000})).encode("utf-8-sig"))
        twice = await front.ask(CHAT, b"\xef\xbb\xbf" + text.encode("utf-8-sig"))
        wide = await front.ask(CHAT, text.encode("utf-16"))
    assert [answer.status for answer in (marked, long_, twice, wide)] == [200, 200, 400, 400]


@in_loop
async def test_a_page_behind_a_plain_balancer_gets_the_declared_url(tmp_path: Path) -> None:
    """Without keys, another site could let its name lead here; `url` tells the gateway which name is its own."""
    origin = "http://llm.example.com:8080"
    headers = {"origin": origin, "host": "llm.example.com:8080", "content-type": "application/x-www-form-urlencoded"}
    form = b"model=bge&query=a&documents=b"
    async with running_gateway(tmp_path, has_keys=False) as front:
        refused = await front.ask("/try/rerank", form, key=None, headers=headers)
    assert (refused.status, refused.error["code"]) == (403, "other_site")
    assert f'the operator declares Gateway(url="{origin}")' in refused.error["message"]
    async with running_gateway(tmp_path, has_keys=False, url=origin) as front:
        assert (await front.ask("/try/rerank", form, key=None, headers=headers)).status == 200


@in_loop
async def test_a_browser_is_answered_for_the_origins_of_the_settings_alone(tmp_path: Path) -> None:
    origin = {"origin": "https://app.example.com"}
    async with running_gateway(tmp_path, cors_origins=["https://app.example.com"]) as front:
        preflight = await front.ask(CHAT, method="OPTIONS", key=None, headers=origin)
        answer = await front.ask("/v1/models", headers=origin)
        foreign = await front.ask("/v1/models", headers={"origin": "https://evil.example.com"})
    assert (preflight.status, preflight.headers["access-control-allow-methods"]) == (200, "POST, OPTIONS")
    assert answer.headers["access-control-allow-origin"] == "https://app.example.com"
    assert "access-control-allow-origin" not in foreign.headers


@in_loop
async def test_an_sdk_in_a_browser_may_send_its_headers_and_read_the_answers(tmp_path: Path) -> None:
    """The browser refused every call of openai's and Anthropic's own SDKs, which send `x-stainless-…` (2026-11-28)."""
    names = "authorization, content-type, anthropic-version, x-stainless-os, x-stainless-retry-count"
    origin = {"origin": "https://app.example.com"}
    async with running_gateway(tmp_path, cors_origins=["https://app.example.com"]) as front:
        preflights = [
            await front.ask(CHAT, method="OPTIONS", key=None, headers=origin | {"access-control-request-headers": sent})
            for sent in (names, "x-a\r\nset-cookie: a", "é")
        ]
        answer = await front.chat(temperature=3)
        seen = await front.ask(CHAT, chat(temperature=3), headers=origin)
    allowed = [preflight.headers["access-control-allow-headers"] for preflight in preflights]
    assert allowed == [names, "authorization, content-type", "authorization, content-type"]
    assert {"x-request-id", "retry-after", "x-ratelimit-remaining-tokens"} <= set(
        seen.headers["access-control-expose-headers"].split(", ")
    )
    assert "access-control-expose-headers" not in answer.headers
