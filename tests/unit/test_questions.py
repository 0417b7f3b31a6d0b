"""The requests of `enginehouse ask` and its printed lines: bodies by kind and path, quoting, addresses."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.inventory.ssh_config import ssh_words
from deploy.models.answers import UnreadableReply, answer
from deploy.models.questions import Question, command, question
from deploy.refusals.errors import Refusal
from deploy.slices.host import ModelSlice
from tests.unit.samples import plan

RERANKER, EMBEDDER, GPT_OSS = plan().for_host("h100-01").servers[0].models
LLAMA = replace(GPT_OSS, name="llama", architecture="LlamaForCausalLM")
SSH = ssh_words("h100-01", {"ssh_user": "ubuntu", "ssh_port": 2222, "ssh_config_file": "my config"})


def test_an_embedder_gets_one_row_of_texts() -> None:
    request = question(EMBEDDER, ("a", "b"))
    assert request.path == "/v2/models/nomic/infer"
    assert request.body == {"inputs": [{"name": "texts", "shape": [1, 2], "datatype": "BYTES", "data": ["a", "b"]}]}


def test_a_reranker_gets_a_query_and_its_passages() -> None:
    assert question(RERANKER, ("why", "a", "b")).body == {
        "inputs": [
            {"name": "query", "shape": [1, 1], "datatype": "BYTES", "data": ["why"]},
            {"name": "passages", "shape": [1, 2], "datatype": "BYTES", "data": ["a", "b"]},
        ]
    }


def test_a_query_without_a_passage_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        question(RERANKER, ("it's why",))
    assert refused.value.attempt == """enginehouse ask INVENTORY bge 'it'"'"'s why' 'a passage' 'another passage'"""


def test_an_llm_that_is_decoupled_streams() -> None:
    request = question(LLAMA, ("Say", "hello."))
    assert request.path == "/v2/models/llama/generate_stream"
    assert request.body == {
        "text_input": "Say hello.",
        "sampling_param_max_tokens": 64,
        "sampling_param_exclude_input_from_output": True,
        "streaming": True,
    }


def test_an_llm_that_is_not_decoupled_answers_whole() -> None:
    request = question(replace(LLAMA, decoupled=False), ("hello",))
    assert request.path == "/v2/models/llama/generate" and "streaming" not in request.body


@pytest.mark.parametrize("decoupled", [True, False])
def test_an_engine_takes_the_names_of_its_ensemble(decoupled: bool) -> None:
    request = question(replace(LLAMA, path="engine", decoupled=decoupled), ("hello",))
    assert request.body == {"text_input": "hello", "max_tokens": 64} | ({"stream": True} if decoupled else {})


def test_gpt_oss_gets_its_chat_format() -> None:
    assert question(GPT_OSS, ("hi",)).body["text_input"] == "<|start|>user<|message|>hi<|end|><|start|>assistant"


def test_the_line_for_an_address_is_curl_alone() -> None:
    """`make rehearse` prints the line."""
    assert command(question(EMBEDDER, ("it's",)), "10.0.0.5", 8000).line == (
        "curl -sS --connect-timeout 10 --max-time 120 --data "
        """'{"inputs": [{"name": "texts", "shape": [1, 1], "datatype": "BYTES", "data": ["it'"'"'s"]}]}' """
        "http://10.0.0.5:8000/v2/models/nomic/infer"
    )


def test_the_line_for_loopback_runs_curl_on_the_host_by_the_inventorys_ssh_settings() -> None:
    line = command(question(EMBEDDER, ("a",)), "127.0.0.1", 8000, SSH).line
    assert line.endswith(
        " | ssh -F 'my config' -o Port=2222 -o User=ubuntu -o BatchMode=yes -o ConnectTimeout=10 h100-01 "
        "'curl -sS --connect-timeout 10 --max-time 120 --data @- http://127.0.0.1:8000/v2/models/nomic/infer'"
    )


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert "http://[fd00::5]:8000/v2" in command(question(EMBEDDER), "fd00::5", 8000).line


@given(texts=st.lists(st.text(), min_size=2, max_size=4), ssh=st.sampled_from([(), SSH]))
def test_any_text_survives_the_shell(texts: list[str], ssh: list[str]) -> None:
    """With quotes, dollars, newlines and backslashes, the pasted line sends the intended JSON."""
    request = question(RERANKER, texts)
    words = shlex.split(command(request, "127.0.0.1", 8000, ssh).line)
    payload = words[2] if ssh else words[words.index("--data") + 1]
    assert json.loads(payload) == request.body
    assert [text for tensor in json.loads(payload)["inputs"] for text in tensor["data"]] == texts


def test_a_text_that_is_not_unicode_is_sent_with_escapes() -> None:
    """Python reads an argument that is not UTF-8 as lone surrogates."""
    assert "\\udcff" in question(EMBEDDER, ("\udcff",)).payload


def read(model: ModelSlice, reply: object, *texts: str) -> str:
    """The answer's text."""
    return answer(model, question(model, texts), reply if isinstance(reply, str) else json.dumps(reply)).text


def test_events_of_a_stream_are_joined() -> None:
    assert read(LLAMA, 'data: {"text_output": "Hel"}\n\ndata: {"text_output": "lo"}\n\n') == "Hello"


def test_scores_stand_beside_their_passages_best_first() -> None:
    reply = {"outputs": [{"name": "scores", "shape": [1, 2], "data": [0.25, 0.5]}]}
    assert read(RERANKER, reply, "query", "low", "high") == "0.5000  high\n0.2500  low"


def test_vectors_are_compared() -> None:
    reply = {"outputs": [{"name": "embeddings", "shape": [1, 2, 2], "data": [1, 0, 0.6, 0.8]}]}
    assert read(EMBEDDER, reply, "a", "b") == (
        "2 vectors of 2 numbers; the first begins 1.0000, 0.0000; cosine of the first to each other: 0.600"
    )


@pytest.mark.parametrize(
    ("model", "reply", "message"),
    [
        (LLAMA, '{"error": "unknown model"}', "unknown model"),
        (LLAMA, 'data: {"error": "queue is full"}\n\n', "queue is full"),
        (EMBEDDER, '{"error": "text is longer"}', "text is longer"),
        (EMBEDDER, "<html>", "not what Triton replies to /v2/models/nomic/infer: '<html>'"),
        (EMBEDDER, "{}", "not what Triton replies to /v2/models/nomic/infer: '{}'"),
        (LLAMA, "[]", "not what Triton replies to /v2/models/llama/generate_stream: '[]'"),
    ],
)
def test_an_unreadable_reply_is_refused_with_its_reason(model: ModelSlice, reply: str, message: str) -> None:
    with pytest.raises(UnreadableReply) as error:
        answer(model, question(model), reply)
    assert str(error.value) == message


def test_a_question_is_a_stream_only_where_it_asks_for_one() -> None:
    assert not Question("/v2/models/generate_stream/infer", {}, ()).is_stream
