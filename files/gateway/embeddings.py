"""`POST /v1/embeddings`."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from gateway.exchange import compact
from gateway.fields import FieldError, Fields
from gateway.parts import Options, in_parts, most_tokens
from gateway.request import Request
from gateway.settings import Alias, ModelSettings
from gateway.tensors import Input, Outputs, strings

BYTES_A_NUMBER = {"float": 24, "base64": 6}
"""Bytes per number in an answer."""
TOKEN_ARRAYS = (
    "token arrays are refused: their tokenizer is unknown; send texts (LangChain: check_embedding_ctx_length=False)"
)


JINA_TASKS = {
    "retrieval.query": "search_query",
    "retrieval.passage": "search_document",
    "separation": "clustering",
}
"""Jina's words for tasks, and ours."""
INPUT_TYPES = {"query": "search_query", "document": "search_document", "passage": "search_document"}
"""Words of Voyage's and NVIDIA's clients in `input_type`, and ours."""


async def embeddings(request: Request) -> None:
    """Answers the vectors of the texts, in their order."""
    fields = request.fields()
    name = fields.text("model", "") or request.only_name("embedder")  # TEI's clients send no model name
    model, alias = request.model(name, "embedder")
    texts = texts_of(fields, request.exchange.limits.inputs)
    task = task_of(fields, model, alias)
    form = form_of(fields)
    fields.only("truncation_direction", "Right", "right", because="texts are cut at their end")
    fields.only("prompt", because="no text is added to an input; `input_type` names a task")
    for more in ("late_chunking", "return_multivector"):
        fields.only(more, False, because="every text gets its own vector")
    options = options_of(fields, model) | ({"task": task} if task else {})
    fields.text("user", "")  # accepted without effect
    fields.close()
    outputs, tokens = await embedded(request, model, texts, options, form)
    vectors = enumerate(vectors_of(outputs, form))
    data = ({"object": "embedding", "index": index, "embedding": vector} for index, vector in vectors)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    # Mistral's client requires an id.
    before = compact({"id": f"embd-{request.exchange.identity}", "object": "list"})[:-1]
    after = compact({"model": name, "usage": usage})[1:]
    await request.exchange.json_of_many(f'{before},"data":', data, f",{after}")


def texts_of(fields: Fields, most: int) -> list[str]:
    """The texts of `input`: a text, or a list of texts.

    Raises: FieldError for token arrays, and for more texts than `most`.
    """
    value = fields.value("input")
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value and isinstance(value[0], (int, list)):
        raise FieldError("input", TOKEN_ARRAYS, "unsupported")
    return Fields({"input": [text_of(item) for item in value] if isinstance(value, list) else value}).texts(
        "input", most
    )


def text_of(item: object) -> object:
    return item["text"] if isinstance(item, dict) and list(item) == ["text"] else item


def task_of(fields: Fields, model: ModelSettings, alias: Alias) -> str:
    """The task that the client names, in the model's words, in Jina's or as an `input_type`; "" for none."""
    if not model.tasks:
        fields.ignore("input_type", because="this model has no tasks")
    words = {word: task for word, task in INPUT_TYPES.items() if task in model.tasks}
    kind = fields.text("input_type", "", choices=("", *words, *model.tasks))
    words |= {word: task for word, task in JINA_TASKS.items() if task in model.tasks}
    task = fields.text("task", kind or alias.task, choices=("", *model.tasks, *words))
    if kind and words.get(task, task) != words.get(kind, kind):
        raise FieldError("input_type", "`input_type` and `task` name different tasks: send either", "invalid_value")
    return words.get(task, task)


def form_of(fields: Fields) -> str:
    """The form of the vectors, in OpenAI's field or in Jina's, which may be a list of one form.

    Raises: FieldError for vectors of fewer bits.
    """
    jinas = fields.value("embedding_type")
    if isinstance(jinas, list):
        (jinas,) = fields.within({"embedding_type": jinas}, "").texts("embedding_type", 1)
    form = fields.within({"embedding_type": jinas}, "").text("embedding_type", "float", choices=("float", "base64"))
    fields.only("output_dtype", "float", because="vectors of fewer bits are not supported")
    return fields.text("encoding_format", form, choices=("float", "base64"))


def options_of(fields: Fields, model: ModelSettings) -> Options:
    """The encoder's options, in Voyage's names too; texts are truncated only if the client asks for it."""
    is_cut = cuts_at_the_end(fields)
    options: Options = {"truncate": any([is_cut, *(truncates(fields, name) for name in ("truncation", "truncate"))])}
    dimensions = fields.maybe_whole("dimensions", 1, model.dimensions)
    dimensions = fields.maybe_whole("output_dimension", 1, model.dimensions) or dimensions
    # Names of Jina's and of vLLM's clients.
    is_normalized = [fields.flag(name, True) for name in ("normalized", "normalize")]
    options |= {} if all(is_normalized) else {"normalize": False}
    return options | ({"dimensions": dimensions} if dimensions else {})


def cuts_at_the_end(fields: Fields) -> bool:
    """True if too long texts are cut in vLLM's words: at the model's length, which is -1.

    Raises: FieldError for another length.
    """
    is_cut = fields.has("truncate_prompt_tokens")
    fields.only("truncate_prompt_tokens", -1, because="texts can only be cut at the model's length, which is -1")
    return is_cut


def truncates(fields: Fields, name: str) -> bool:
    """True if too long texts are cut at their end: a boolean, or NVIDIA's END.

    Raises: FieldError.
    """
    value = fields.value(name)
    if value == "START":
        raise FieldError(name, f"`{name}`: texts can only be cut at their end", "unsupported")
    if isinstance(value, str) and value in ("NONE", "END"):
        return value == "END"
    if not isinstance(value, bool | None):
        raise fields.wrong(name, "true, false, NONE or END")
    return bool(value)


async def embedded(
    request: Request, model: ModelSettings, texts: Sequence[str], options: Options, *forms: str
) -> tuple[list[Outputs], int]:
    """The outputs of each part of the texts, and their tokens. Memory for the vectors in all forms is reserved first.

    Raises: UpstreamError, ApiError.
    """
    numbers = len(texts) * int(options.get("dimensions") or model.dimensions)
    request.hold_answer(numbers * sum(BYTES_A_NUMBER[form] for form in forms))
    request.reserve(most_tokens(model, texts))

    def tensors(part: Sequence[str]) -> list[Input]:
        return [strings("texts", part, (1, len(part)))]

    outputs, tokens = await in_parts(request, model, texts, options, tensors)
    request.exchange.record.prompt_tokens = tokens
    return outputs, tokens


def vectors_of(outputs: Sequence[Outputs], form: str) -> Iterator[Any]:
    """Each vector of FP32 [vectors, width], as base64 of its bytes or as a list of numbers."""
    for vectors in (output["embeddings"] for output in outputs):
        width = vectors.shape[-1] * 4
        for start in range(0, len(vectors.raw), width):
            row = vectors.raw[start : start + width]
            yield base64.b64encode(row).decode() if form == "base64" else memoryview(row).cast("f").tolist()
