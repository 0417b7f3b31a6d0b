"""Unsupported fields of chats and completions, refused by name or named in a header; and unsupported paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.fields import Fields

MOST_IDENTITY = 512
"""Characters of a client's name for its user or its prompts; OpenAI takes 64 (2026-11-26)."""
TRUE, FALSE = (True,), (False,)
CHANGES = {
    "logit_bias": (({},), "a bias of tokens is not supported"),
    "modalities": ((["text"],), "the model writes text only"),
    "audio": ((), "the model writes text only"),
    "web_search_options": ((), "the model cannot search"),
    "enable_search": (FALSE, "the model cannot search"),
    "search_parameters": (({"mode": "off"},), "the model cannot search"),
    "plugins": (([],), "this server runs no plugins"),
    "echo": (FALSE, "the prompt is not sent back"),
    "add_generation_prompt": (TRUE, "the last message of a chat cannot be continued"),
    "continue_final_message": (FALSE, "the last message of a chat cannot be continued"),
    "add_special_tokens": (FALSE, "the template writes the special tokens"),
    "chat_template": ((), "prompts are written by the model's own template"),
    "documents": (([],), "put documents into the messages"),
}
"""Fields of a chat that would change an answer's meaning: the values without an effect, and the reason for the
refusal."""
SHARED_CHANGES = {
    "best_of": ((1,), "every generated answer is sent; use `n` for several"),
    "use_beam_search": (FALSE, "answers are sampled"),
    "ignore_eos": (FALSE, "an answer always ends at the model's end token"),
    "include_stop_str_in_output": (FALSE, "an answer always ends before its stop string"),
    "skip_special_tokens": (TRUE, "special tokens are left out of the text"),
    "prompt_logprobs": ((0,), "log probabilities of prompts are not supported"),
    "truncate_prompt_tokens": ((), "a prompt is read whole, or refused"),
    "allowed_token_ids": (([],), "tokens cannot be restricted; use a response format"),
    "bad_words": (([],), "tokens cannot be excluded"),
    "stop_token_ids": (([],), "send `stop` as texts"),
    "safe_prompt": (FALSE, "no text is added to a prompt"),
    **dict.fromkeys(("regex", "ebnf", "grammar", "json_schema"), ((), "send it in `structured_outputs`")),
    "logits_processors": (([],), "clients' code is not executed"),
    "return_tokens_as_token_ids": (FALSE, "tokens are returned as texts"),
    "return_token_ids": (FALSE, "tokens are returned as texts"),
}
"""Accepted values of other servers' fields in chats and completions, and the reason for refusing any other value."""
CHANGES_NOTHING = {
    "store": (FALSE, "nothing is stored"),
    "metadata": (({},), "nothing is stored"),
    "service_tier": (("auto", "default"), "all requests have the same tier"),
    "priority": ((0,), "all requests have the same priority"),
    "prompt_cache_retention": ((), "cached prompts are kept while there is room"),
    "prediction": ((), "predicted outputs are not supported"),
    "verbosity": ((), "the model has no verbosity setting"),
    "reasoning_format": (("parsed", "auto", "deepseek"), "reasoning is always separate from the answer"),
    "include_reasoning": (TRUE, "reasoning is always separate from the answer"),
    "length_penalty": ((1, 1.0), "answers are sampled"),
    "spaces_between_special_tokens": (TRUE, "special tokens are left out of the text"),
}
"""Fields that are ignored, and named in the answer's header."""

CHATS_OWN = (
    *("max_tokens", "max_completion_tokens", "min_tokens", "stop", "seed", "random_seed", "top_p", "top_k", "min_p"),
    *("frequency_penalty", "presence_penalty", "repetition_penalty", "response_format", "structured_outputs"),
    *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "functions", "function_call"),
    *("chat_template_kwargs", "enable_thinking", "thinking", "reasoning_effort", *CHANGES, *SHARED_CHANGES),
)
"""Fields of a chat that change its answer. A dialect without a field of this name reads it as a chat does."""
NO_LOGPROBS = "log probabilities are answered by /v1/chat/completions"
ONE_TEXT = {
    "n": (1, "this path answers with one text; ask /v1/chat/completions for several"),
    "logprobs": (False, NO_LOGPROBS),
    "top_logprobs": (0, NO_LOGPROBS),
}
"""Fields of a chat that ask for more than a dialect's answer has: the value without an effect, and the reason."""

NOTHING_STORED = "no response is stored here: send the whole conversation in `input` of POST /v1/responses"
NO_ANSWER_STORED = "no answer is stored here: send the whole conversation to POST /v1/chat/completions"
NO_FILES = "nothing is stored here: send texts in the request that needs them"
TEXT_ONLY = "the models read and write text only"
OTHERS_API = "this server has no API of {}: set the client to OpenAI's API, with a base address that ends in /v1"
NO_BATCHES = "batches are not supported here: send each request by itself"
NO_CLASSES = "classes of texts are not supported here; POST /rerank scores texts for a query"
PATHS = {
    "/v1/responses/": NOTHING_STORED,
    "/v1/conversations": NOTHING_STORED,
    "/v1/messages/batches": NO_BATCHES,
    "/v1/batches": NO_BATCHES,
    "/v1/embed-jobs": NO_BATCHES,
    "/v1/complete": "send the text as a message to POST /v1/messages",
    "/v1/generate": "send the text to POST /v1/completions, or as a message to POST /v2/chat",
    "/v1/classify": NO_CLASSES,
    "/classify": NO_CLASSES,
    "/predict": NO_CLASSES,
    "/embed_all": "vectors of tokens are not supported here; POST /embed answers one for each text",
    "/embed_sparse": "sparse vectors are not supported here; POST /embed answers dense ones",
    "/similarity": "compare the vectors of POST /embed",
    "/decode": "texts of encoders' tokens are not supported here; POST /v1/detokenize has those of an LLM",
    "/api/": OTHERS_API.format("Ollama, LM Studio or Open WebUI"),
    "/v1beta/": OTHERS_API.format("Gemini"),
    "/v2/models": OTHERS_API.format("Triton and KServe (it is at the ports of each server)"),
    "/v2/health": OTHERS_API.format("Triton and KServe (it is at the ports of each server)"),
    "/generate": OTHERS_API.format("Text Generation Inference or SGLang"),
    "/completion": OTHERS_API.format("llama.cpp"),
    "/infill": OTHERS_API.format("llama.cpp"),
    "/invocations": OTHERS_API.format("SageMaker"),
    "/v1/chat/completions/": NO_ANSWER_STORED,
    "/v1/threads": NO_ANSWER_STORED,
    "/v1/assistants": NO_ANSWER_STORED,
    "/v1/realtime": "answers are streamed as events of POST /v1/chat/completions or /v1/responses",
    **dict.fromkeys(("/v1/files", "/v1/uploads", "/v1/vector_stores", "/v1/containers"), NO_FILES),
    **dict.fromkeys(("/v1/audio", "/v1/images", "/v1/videos", "/v1/multimodalembeddings"), TEXT_ONLY),
    "/v1/contextualizedembeddings": "POST /v1/embeddings answers a vector for each text",
    "/v1/moderations": NO_CLASSES,
    "/v1/segment": "texts are not cut into pieces here",
    "/v1/ranking": "POST /v1/rerank ranks documents",
    "/v1/fim": "text before a suffix is not supported here; POST /v1/completions continues a prompt",
    "/pooling": "POST /v1/embeddings answers a vector for each text",
}
"""The beginnings of vendors' paths that are not served, and the remedy of a client that sends a request to one."""
TEXT_ERRORS = ("/predict", "/embed_all", "/embed_sparse", "/similarity", "/decode", "/generate", "/api/")
"""Beginnings of paths of TEI, of Text Generation Inference and of Ollama, whose clients read `error` as a text."""


def path_refusal(path: str) -> str:
    """The message for a client of a path that is not served."""
    remedies = (remedy for beginning, remedy in PATHS.items() if path.startswith(beginning))
    return f"this path does not exist; {next(remedies, 'GET /v1/models lists the models')}"


def refuse_the_rest(fields: Fields) -> None:
    """Refuses unsupported fields, or ignores them if they do not change an answer's meaning."""
    for name in ("user", "safety_identifier"):
        fields.text(name, "", most=MOST_IDENTITY)
    refuse_changes(fields, CHANGES)


def refuse_changes(fields: Fields, changes: Mapping[str, tuple[tuple[Any, ...], str]]) -> None:
    """Refuses these fields and those that no endpoint supports; ignores fields that change no meaning."""
    for name, (accepted, because) in {**changes, **SHARED_CHANGES}.items():
        fields.only(name, *accepted, because=because)
    for name, (accepted, because) in CHANGES_NOTHING.items():
        fields.ignore(name, *accepted, because=because)
