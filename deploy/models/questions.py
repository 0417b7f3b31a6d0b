"""Requests to a served model over HTTP, and the same as a line to paste into a shell.

A question is made only from the plan. `deploy/io/ask.py` sends it, `answers.py` reads the reply. Triton applies
no chat template: an LLM completes the text of the question, and gpt-oss needs its own format around the text. A gateway
applies the template, and gets requests like those of OpenAI's and Cohere's clients. Its key comes from standard input,
because every user of a machine can read arguments. Sources: Triton's HTTP, generate and inference extensions; names of
tensors: templates/triton/*.pbtxt.j2.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from deploy.refusals import refuse
from deploy.slices.host import ModelSlice

ANSWER_TOKENS = 64
HARMONY = "<|start|>user<|message|>{}<|end|><|start|>assistant"
SAMPLES: Mapping[str, tuple[str, ...]] = {
    "llm": ("Say hello.",),
    "embedder": ("A man is eating food.", "A man eats something."),
    "reranker": ("What is the capital of France?", "Paris is the capital of France.", "Bananas are yellow."),
}
"""Sample texts for `enginehouse ask`, by kind of model."""
NO_CHATS = "no chat template"
"""A gateway's message about an LLM that completes texts without chats."""
BEARER = 'header = "Authorization: Bearer %s"'
"""A line of curl's configuration."""
CURL = ("curl", "-sS", "--connect-timeout", "10", "--max-time", "120")


@dataclass(frozen=True)
class Question:
    """A request to a model: the path on its server, the JSON body, and the texts in it."""

    path: str
    body: Mapping[str, object]
    texts: tuple[str, ...]

    @property
    def is_stream(self) -> bool:
        return self.path.endswith(("/generate_stream", "/completions"))

    @property
    def payload(self) -> str:
        """The body as JSON on one line; readable if its texts can be encoded, else with escapes."""
        text = json.dumps(self.body, ensure_ascii=False)
        return text if _is_encodable(text) else json.dumps(self.body)


@dataclass(frozen=True)
class Command:
    """A program, its arguments, and its standard input ("" for none)."""

    argv: tuple[str, ...]
    stdin: str = ""
    key: str = ""
    """The expression from which a shell reads a gateway's key, which follows on standard input: "$ENGINEHOUSE_KEY"."""

    @property
    def line(self) -> str:
        """The command as one line of shell, without the key."""
        fed = f"printf %s {shlex.quote(self.stdin)}" if self.stdin else ""
        if self.key:
            fed = f"{{ {fed}; printf {shlex.quote(BEARER)} {self.key}; }}"
        return f"{fed} | {shlex.join(self.argv)}" if fed else shlex.join(self.argv)


def question(model: ModelSlice, texts: Sequence[str] = ()) -> Question:
    """The question with `texts` for the model; without texts, the sample of its kind.

    Raises `Refusal` if a reranker gets a query and no passage.
    """
    sample = tuple(texts) or SAMPLES[model.kind]
    if model.kind == "llm":
        return _generation(model, " ".join(sample))
    if model.kind == "embedder":
        return Question(f"/v2/models/{model.name}/infer", {"inputs": [_strings("texts", sample)]}, sample)
    if len(sample) < 2:
        raise refuse(
            "no-passage",
            f"{model.name} is a reranker, and got a query without a passage",
            where=model.name,
            seen=repr(sample[0]),
            wanted="a query, then one or more passages it is scored against",
            attempt=f"enginehouse ask INVENTORY {model.name} {shlex.quote(sample[0])} 'a passage' 'another passage'",
        )
    inputs = [_strings("query", sample[:1]), _strings("passages", sample[1:])]
    return Question(f"/v2/models/{model.name}/infer", {"inputs": inputs}, sample)


def command(question: Question, address: str, port: int, ssh: Sequence[str] = ()) -> Command:
    """curl that sends the question to address:port; with `ssh`, the words that log in to the host, curl runs there."""
    url = f"http://{authority(address, port)}{question.path}"
    curl = (*CURL, *(["--no-buffer"] if question.is_stream else []))
    if not ssh:
        return Command((*curl, "--data", question.payload, url))
    # The body comes from standard input, so that it is quoted for one shell and not for two.
    return Command((*ssh, shlex.join((*curl, "--data", "@-", url))), question.payload)


def gateway_question(model: ModelSlice, texts: Sequence[str] = (), is_chat: bool = True) -> Question:
    """The question with `texts` for the model through a gateway; an LLM gets a chat, or a text to complete.

    Raises `Refusal` if a reranker gets a query and no passage.
    """
    sample = question(model, texts).texts
    named: dict[str, object] = {"model": model.name}
    if model.kind == "embedder":
        return Question("/v1/embeddings", named | {"input": list(sample)}, sample)
    if model.kind == "reranker":
        return Question("/v2/rerank", named | {"query": sample[0], "documents": list(sample[1:])}, sample)
    length = {"max_tokens": ANSWER_TOKENS, "stream": True}
    if is_chat:
        return Question(
            "/v1/chat/completions", named | {"messages": [{"role": "user", "content": sample[0]}]} | length, sample
        )
    return Question("/v1/completions", named | {"prompt": sample[0]} | length, sample)


def gateway_command(question: Question, address: str, port: int, ssh: Sequence[str] = (), key: str = "") -> Command:
    """curl that sends the question to a gateway; everything except the address is in its configuration on standard
    input.

    `key` is the place from which a shell reads the key; "" if the gateway needs no key.
    """
    curl = (*CURL, *(["--no-buffer"] if question.is_stream else []), "--config", "-")
    curl = (*curl, f"http://{authority(address, port)}{question.path}")
    written = f'header = "Content-Type: application/json"\ndata = {_configured(question.payload)}\n'
    return Command((*ssh, shlex.join(curl)) if ssh else curl, written, key)


def authority(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def is_loopback(address: str) -> bool:
    return ip_address(address).is_loopback


def _generation(model: ModelSlice, text: str) -> Question:
    """The question with `text` for an LLM.

    The two paths differ in the names of their inputs. An LLM that is not decoupled cannot stream.
    """
    prompt = HARMONY.format(text) if model.architecture.startswith("GptOss") else text
    if model.path == "engine":
        options: dict[str, object] = {"max_tokens": ANSWER_TOKENS, "stream": True}
    else:
        options = {"sampling_param_max_tokens": ANSWER_TOKENS, "sampling_param_exclude_input_from_output": True}
        options["streaming"] = True
    if not model.decoupled:
        options = {name: value for name, value in options.items() if name not in ("stream", "streaming")}
    verb = "generate_stream" if model.decoupled else "generate"
    return Question(f"/v2/models/{model.name}/{verb}", {"text_input": prompt, **options}, (text,))


def _strings(name: str, texts: Sequence[str]) -> dict[str, object]:
    return {"name": name, "shape": [1, len(texts)], "datatype": "BYTES", "data": list(texts)}


def _configured(text: str) -> str:
    """A value in curl's configuration file. JSON has no line breaks of its own."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
