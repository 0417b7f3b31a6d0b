"""The part of OpenAI's and Cohere's interfaces that the tests' gateway offers, as an OpenAPI 3.1 document.

The schemas are those of the settings in tests/gateway/asking.py: an LLM without parsers named `llama`, an embedder
`nomic` of 4 dimensions, a reranker `bge`. A request that keeps its schema is answered or refused with 400; every answer
keeps its schema. Fields with only one accepted value are left out. The lines are more than 300 because each endpoint
has its schema.
"""

from __future__ import annotations

from typing import Any

from gateway.messages import MOST_MESSAGES, MOST_PARTS
from gateway.sampling import MOST_LOGPROBS, MOST_SEED, MOST_SEQUENCES, MOST_STOPS
from gateway.settings import Limits

LIMITS = Limits()
MOST = 2**31 - 1
Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}


def open_object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """Returns the schema of an object with these fields; unknown fields are ignored, and null counts as absent."""
    return {
        "type": "object",
        "properties": {name: schema if name in required else maybe(schema) for name, schema in properties.items()},
        "required": list(required),
    }


def closed_object(**properties: Schema) -> Schema:
    """Returns the schema of an object with exactly these fields."""
    return {**open_object(tuple(properties), **properties), "additionalProperties": False}


def items(of: Schema, least: int = 1, most: int = MOST_MESSAGES) -> Schema:
    return {"type": "array", "items": of, "minItems": least, "maxItems": most}


def number(least: float, most: float) -> Schema:
    return {"type": "number", "minimum": least, "maximum": most}


def whole(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def word(*words: str) -> Schema:
    return {"enum": list(words)}


SAMPLED: Schema = {
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "min_p": number(0, 1),
    "top_k": {"type": "integer", "maximum": MOST},
    "frequency_penalty": number(-2, 2),
    "presence_penalty": number(-2, 2),
    "seed": whole(-MOST_SEED, MOST_SEED),
    "stop": {"anyOf": [{"type": "string", "minLength": 1}, items({"type": "string", "minLength": 1}, 0, MOST_STOPS)]},
    "max_tokens": whole(1, MOST),
    "n": whole(1, MOST_SEQUENCES),
    "user": TEXT,
}
MESSAGE = open_object(
    ("role", "content"),
    role=word("system", "developer", "user", "assistant"),
    content={"anyOf": [TEXT, items(open_object(("type", "text"), type=word("text"), text=TEXT), 1, MOST_PARTS)]},
    name=TEXT,
)
CHAT = open_object(
    ("model", "messages"),
    model=word("llama", "gpt-4o"),
    messages=items(MESSAGE),
    logprobs=FLAG,
    top_logprobs=whole(0, MOST_LOGPROBS),
    max_completion_tokens=whole(1, MOST),
    response_format=open_object(("type",), type=word("text", "json_object")),
    **SAMPLED,
)
IDS: Schema = {"type": "array", "items": COUNT, "minItems": 1}
COMPLETION = open_object(
    ("model", "prompt"),
    model=word("llama"),
    prompt={"anyOf": [TEXT, IDS, items({"anyOf": [TEXT, IDS]}, 1, LIMITS.inputs)]},
    echo=FLAG,
    logprobs=whole(0, MOST_LOGPROBS),
    **SAMPLED,
)
EMBEDDING = open_object(
    ("input",),
    model=word("nomic", "nomic:query"),
    input={"anyOf": [TEXT, items(TEXT, 1, LIMITS.inputs)]},
    encoding_format=word("float", "base64"),
    dimensions=whole(1, 4),
    user=TEXT,
)
RERANK: Schema = {
    "model": word("bge"),
    "query": TEXT,
    "top_n": whole(1, MOST),
}
SCORE = open_object(
    ("model", "text_1", "text_2"),
    model=word("bge"),
    text_1={"anyOf": [TEXT, items(TEXT, 1, 1)]},
    text_2={"anyOf": [TEXT, items(TEXT, 1, LIMITS.documents)]},
)
TOKEN_LOGPROB: Schema = {"token": {"type": "string"}, "logprob": number(-1e9, 0), "bytes": items(whole(0, 255), 0, 99)}
LOGPROB = closed_object(**TOKEN_LOGPROB, top_logprobs=items(closed_object(**TOKEN_LOGPROB), 0, MOST_LOGPROBS))
LOGPROBS = maybe(closed_object(content=items(LOGPROB, 0, 999), refusal={"type": "null"}))
USAGE = closed_object(
    prompt_tokens=COUNT,
    completion_tokens=COUNT,
    total_tokens=COUNT,
    prompt_tokens_details=closed_object(cached_tokens=COUNT),
)
FINISH = word("stop", "length")
HEAD: Schema = {
    "id": TEXT,
    "created": COUNT,
    "model": TEXT,
    "system_fingerprint": maybe(TEXT),
}
ANSWER = closed_object(role=word("assistant"), content={"type": "string"}, refusal={"type": "null"})
CHAT_ANSWER = closed_object(
    **HEAD,
    object=word("chat.completion"),
    choices=items(
        closed_object(index=COUNT, message=ANSWER, logprobs=LOGPROBS, finish_reason=FINISH), 1, MOST_SEQUENCES
    ),
    usage=USAGE,
)
LOGPROB: Schema = {"type": "number", "maximum": 0}
LISTED = closed_object(
    tokens={"type": "array", "items": {"type": "string"}},
    token_logprobs={"type": "array", "items": LOGPROB},
    top_logprobs=maybe({"type": "array", "items": {"type": "object", "additionalProperties": LOGPROB}}),
    text_offset={"type": "array", "items": COUNT},
)
COMPLETION_CHOICE = closed_object(index=COUNT, text={"type": "string"}, logprobs=maybe(LISTED), finish_reason=FINISH)
COMPLETION_ANSWER = closed_object(
    **HEAD, object=word("text_completion"), choices=items(COMPLETION_CHOICE, 1, LIMITS.inputs), usage=USAGE
)
VECTOR: Schema = {"anyOf": [{"type": "string", "contentEncoding": "base64"}, items({"type": "number"}, 1, 4)]}
EMBEDDING_ANSWER = closed_object(
    id=TEXT,
    object=word("list"),
    data=items(closed_object(object=word("embedding"), index=COUNT, embedding=VECTOR), 1, 2048),
    model=TEXT,
    usage=closed_object(prompt_tokens=COUNT, total_tokens=COUNT),
)
RANKED = open_object(
    ("index", "relevance_score"), index=COUNT, relevance_score=number(0, 1), document=closed_object(text=TEXT)
)
RERANK_ANSWER = closed_object(
    id=TEXT,
    model=TEXT,
    results=items(RANKED, 1, 10_000),
    meta=closed_object(api_version=closed_object(version=word("1", "2")), tokens=closed_object(input_tokens=COUNT)),
    usage=closed_object(prompt_tokens=COUNT, total_tokens=COUNT),
)
SCORE_ANSWER = closed_object(
    id=TEXT,
    object=word("list"),
    created=COUNT,
    model=TEXT,
    data=items(closed_object(index=COUNT, object=word("score"), score=number(0, 1)), 1, 10_000),
    usage=closed_object(prompt_tokens=COUNT, total_tokens=COUNT),
)
COHERE_MODEL: Schema = {
    "name": TEXT,
    "endpoints": items(word("chat", "embed", "rerank"), 1, 1),
    "finetuned": FLAG,
    "context_length": COUNT,
}
MODEL = open_object(
    ("id", "object", "created", "owned_by", "kind", "root", "max_model_len"),
    id=TEXT,
    object=word("model"),
    created=COUNT,
    owned_by=TEXT,
    kind=word("llm", "embedder", "reranker"),
    root=TEXT,
    max_model_len=COUNT,
    dimensions=COUNT,
)
ERROR = closed_object(
    message=TEXT,
    error=closed_object(message=TEXT, type=TEXT, param=maybe(TEXT), code=maybe(TEXT)),
)


USER_MESSAGE = open_object(("role", "content"), role=word("user"), content=TEXT)
ITEM = open_object(("role", "content"), role=word("user", "system", "developer", "assistant"), content=TEXT)
RESPONSE = open_object(
    ("model", "input"),
    model=word("llama", "gpt-4o"),
    input={"anyOf": [TEXT, items(ITEM)]},
    instructions=TEXT,
    max_output_tokens=whole(1, MOST),
    temperature=number(0, 2),
    top_p=number(0, 1),
    store=FLAG,
    parallel_tool_calls=FLAG,
    metadata={"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 16},
    reasoning=open_object((), effort=word("none", "minimal", "low", "medium", "high"), summary=word("auto")),
)
PART = closed_object(
    type=word("output_text"), text={"type": "string"}, annotations=items(TEXT, 0, 0), logprobs=items(TEXT, 0, 0)
)
OUTPUT = closed_object(
    id=TEXT,
    type=word("message"),
    status=word("completed", "incomplete"),
    role=word("assistant"),
    content=items(PART, 1, 1),
)
RESPONSE_USAGE = closed_object(
    input_tokens=COUNT,
    input_tokens_details=closed_object(cached_tokens=COUNT, cache_write_tokens=COUNT),
    output_tokens=COUNT,
    output_tokens_details=closed_object(reasoning_tokens=COUNT),
    total_tokens=COUNT,
)
RESPONSE_ANSWER: Schema = {
    "type": "object",
    "properties": {
        "id": TEXT,
        "object": word("response"),
        "created_at": COUNT,
        "status": word("completed", "incomplete"),
        "model": TEXT,
        "output": items(OUTPUT, 1, 1),
        "usage": RESPONSE_USAGE,
        "store": {"const": False},
    },
    "required": ["id", "object", "created_at", "status", "model", "output", "usage", "store", "tools", "tool_choice"],
}
COUNTED = open_object(("model", "messages"), model=word("llama"), messages=items(USER_MESSAGE), system=TEXT)
ANTHROPIC_SAMPLED: Schema = {
    "max_tokens": whole(1, MOST),
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "top_k": {"type": "integer", "maximum": MOST},
    "stop_sequences": items({"type": "string", "minLength": 1}, 0, MOST_STOPS),
}
ANTHROPIC_MESSAGE = open_object(
    ("model", "messages", "max_tokens"),
    model=word("llama"),
    messages=items(USER_MESSAGE),
    system=TEXT,
    **ANTHROPIC_SAMPLED,
)
ANTHROPIC_ANSWER = closed_object(
    id=TEXT,
    type=word("message"),
    role=word("assistant"),
    model=TEXT,
    content=items(closed_object(type=word("text"), text=TEXT), 0, 1),
    stop_reason=word("end_turn", "max_tokens"),
    stop_sequence={"type": "null"},
    usage=closed_object(
        input_tokens=COUNT, cache_creation_input_tokens=COUNT, cache_read_input_tokens=COUNT, output_tokens=COUNT
    ),
)
ANTHROPIC_ERROR = closed_object(type=word("error"), error=closed_object(type=TEXT, message=TEXT))
COHERE_CHAT = open_object(
    ("model", "messages"),
    model=word("llama"),
    messages=items(USER_MESSAGE),
    max_tokens=whole(1, MOST),
    k=whole(0, MOST),
    p=number(0, 1),
)
COHERE_COUNTS = closed_object(input_tokens=COUNT, output_tokens=COUNT)
COHERE_ANSWER = closed_object(
    id=TEXT,
    message=closed_object(role=word("assistant"), content=items(closed_object(type=word("text"), text=TEXT), 0, 1)),
    finish_reason=word("COMPLETE", "MAX_TOKENS"),
    usage=closed_object(billed_units=COHERE_COUNTS, tokens=COHERE_COUNTS, cached_tokens=COUNT),
)
TURN = open_object(("role",), role=word("USER", "CHATBOT", "SYSTEM"), message=TEXT)
FIRST_CHAT = open_object(
    ("model", "message"),
    model=word("llama"),
    message={"type": "string", "minLength": 1},
    preamble=TEXT,
    chat_history=items(TURN, 0),
    max_tokens=whole(1, MOST),
    k=whole(0, MOST),
    p=number(0, 1),
)
FIRST_ANSWER = closed_object(
    response_id=TEXT,
    generation_id=TEXT,
    text=TEXT,
    chat_history=items(TURN, 2, MOST_MESSAGES + 2),
    finish_reason=word("COMPLETE", "MAX_TOKENS"),
    meta=closed_object(api_version=closed_object(version=word("1")), billed_units=COHERE_COUNTS, tokens=COHERE_COUNTS),
)
COHERE_EMBED = open_object(
    ("model", "texts", "input_type"),
    model=word("nomic"),
    texts=items(TEXT, 1, LIMITS.inputs),
    input_type=word("search_document", "search_query", "classification", "clustering"),
    embedding_types=items(word("float", "base64"), 1, 2),
    truncate=word("NONE", "END"),
    output_dimension=whole(1, 4),
)
VECTORS = items(VECTOR, 1, LIMITS.inputs)
EMBED_ANSWER = closed_object(
    id=TEXT,
    response_type=word("embeddings_by_type"),
    embeddings=open_object((), float=VECTORS, base64=VECTORS),
    texts=items(TEXT, 1, LIMITS.inputs),
    meta=closed_object(api_version=closed_object(version=TEXT), billed_units=closed_object(input_tokens=COUNT)),
)


def json_of(schema: Schema) -> Schema:
    return {"content": {"application/json": {"schema": schema}}}


def operation(answer: Schema, body: Schema | None = None, *errors: int, error: Schema = ERROR) -> Schema:
    """Returns the responses and the request body of a path's only method."""
    statuses = {str(status): {"description": "refused", **json_of(error)} for status in (400, 401, 405, *errors)}
    methods: Schema = {"responses": {"200": {"description": "answered", **json_of(answer)}, **statuses}}
    return methods | ({"requestBody": {"required": True, **json_of(body)}} if body else {})


def rerank(version: int) -> Schema:
    """Returns the schema of Cohere's first or second version."""
    document = TEXT if version == 2 else {"anyOf": [TEXT, closed_object(text=TEXT)]}
    more = {"return_documents": FLAG} if version == 1 else {}
    body = open_object(
        ("model", "query", "documents"), documents=items(document, 1, LIMITS.documents), **RERANK, **more
    )
    return {"post": operation(RERANK_ANSWER, body, 404, 413, 415)}


def specification() -> Schema:
    """Returns the document."""
    of_cohere = items(closed_object(**COHERE_MODEL), 1, 100)
    models = operation(closed_object(object=word("list"), data=items(MODEL, 1, 100), models=of_cohere))
    named = {"name": "name", "in": "path", "required": True, "schema": word("llama", "nomic", "bge", "nomic:query")}
    paths = {
        "/v1/chat/completions": {"post": operation(CHAT_ANSWER, CHAT, 404, 413, 415)},
        "/v1/completions": {"post": operation(COMPLETION_ANSWER, COMPLETION, 404, 413, 415)},
        "/v1/responses": {"post": operation(RESPONSE_ANSWER, RESPONSE, 404, 413, 415)},
        "/v1/messages": {
            "post": operation(ANTHROPIC_ANSWER, ANTHROPIC_MESSAGE, 404, 413, 415, error=ANTHROPIC_ERROR),
        },
        "/v1/messages/count_tokens": {
            "post": operation(closed_object(input_tokens=COUNT), COUNTED, 404, 413, 415, error=ANTHROPIC_ERROR),
        },
        "/v1/chat": {"post": operation(FIRST_ANSWER, FIRST_CHAT, 404, 413, 415)},
        "/v2/chat": {"post": operation(COHERE_ANSWER, COHERE_CHAT, 404, 413, 415)},
        "/v2/embed": {"post": operation(EMBED_ANSWER, COHERE_EMBED, 404, 413, 415)},
        "/v1/embeddings": {"post": operation(EMBEDDING_ANSWER, EMBEDDING, 404, 413, 415)},
        "/v1/rerank": rerank(1),
        "/v2/rerank": rerank(2),
        "/score": {"post": operation(SCORE_ANSWER, SCORE, 404, 413, 415)},
        "/v1/models": {"get": models},
        "/v1/models/{name}": {"get": operation(MODEL, None, 404) | {"parameters": [named]}},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "What the gateway offers", "version": "1"},
        "paths": paths,
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{"key": []}],
    }
