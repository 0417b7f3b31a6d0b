"""The table of tests/clients/README.md: the program that runs each client, and the refusals with their reasons."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "locks"


@dataclass(frozen=True)
class Client:
    """A package of a registry; `prefix` begins the names of its calls in a program that several clients share."""

    package: str
    program: str
    environment: str
    prefix: str = ""

    @property
    def label(self) -> str:
        """Returns the package's name in the table."""
        return f"{self.package} (npm)" if self.environment == "npm" else self.package

    @property
    def version(self) -> str:
        """Returns the version that the lock file of its environment pins."""
        if self.environment == "npm":
            locked = json.loads((LOCKS / "clients-npm" / "package-lock.json").read_text("utf-8"))["packages"]
            return str(locked[f"node_modules/{self.package}"]["version"])
        suffix = f"-{self.environment}" if self.environment else ""
        lock = (LOCKS / f"requirements-clients{suffix}.lock").read_text("utf-8")
        match = re.search(rf"^{re.escape(self.package)}(?:\[[a-z,]+\])?==(\S+)", lock, re.MULTILINE)
        assert match, f"{self.package} is not in the lock: type `make lock`"
        return match[1]


FRAMEWORKS, OLDER, CREWAI, NPM = "frameworks", "openai-2", "crewai", "npm"
CLIENTS = (
    Client("openai", "openai_sdk", ""),
    Client("anthropic", "anthropic_sdk", ""),
    Client("cohere", "cohere_sdk", ""),
    Client("huggingface-hub", "huggingface", ""),
    Client("agent-framework-openai", "more_frameworks", FRAMEWORKS, "microsoft_"),
    Client("agno", "frameworks", FRAMEWORKS, "agno_"),
    Client("autogen-agentchat", "frameworks", FRAMEWORKS, "autogen_"),
    Client("chatlas", "vendors", FRAMEWORKS, "chatlas_"),
    Client("dspy", "frameworks", FRAMEWORKS, "dspy_"),
    Client("google-adk", "more_frameworks", FRAMEWORKS, "adk_"),
    Client("griptape", "frameworks", FRAMEWORKS, "griptape_"),
    Client("groq", "vendors", FRAMEWORKS, "groq_"),
    Client("haystack-ai", "frameworks", FRAMEWORKS, "haystack_"),
    Client("langchain-anthropic", "langchain_others", FRAMEWORKS, "anthropic_"),
    Client("langchain-cohere", "langchain_others", FRAMEWORKS, "cohere_"),
    Client("langchain-openai", "langchain_openai_", FRAMEWORKS),
    Client("langgraph", "langchain_others", FRAMEWORKS, "graph_"),
    Client("litellm", "litellm_", FRAMEWORKS),
    Client("llama-index-embeddings-openai-like", "more_frameworks", FRAMEWORKS, "llama_index_vectors"),
    Client("llama-index-llms-anthropic", "more_frameworks", FRAMEWORKS, "llama_index_anthropic_"),
    Client("llama-index-postprocessor-cohere-rerank", "more_frameworks", FRAMEWORKS, "llama_index_best"),
    Client("llm", "frameworks", FRAMEWORKS, "llm_"),
    Client("magentic", "more_frameworks", FRAMEWORKS, "magentic_"),
    Client("mistralai", "more_frameworks", FRAMEWORKS, "mistral_"),
    Client("openai-agents", "openai_agents", FRAMEWORKS),
    Client("outlines", "more_frameworks", FRAMEWORKS, "outlines_"),
    Client("pydantic-ai-slim", "pydantic_ai_", FRAMEWORKS),
    Client("smolagents", "more_frameworks", FRAMEWORKS, "smolagents_"),
    Client("together", "vendors", FRAMEWORKS, "together_"),
    Client("voyageai", "more_frameworks", FRAMEWORKS, "voyage_"),
    Client("any-llm-sdk", "older_frameworks", OLDER, "any_llm_"),
    Client("camel-ai", "older_frameworks", OLDER, "camel_"),
    Client("instructor", "older_frameworks", OLDER, "instructor_"),
    Client("llama-index-llms-openai-like", "older_frameworks", OLDER, "llama_index_"),
    Client("mirascope", "older_frameworks", OLDER, "mirascope_"),
    Client("semantic-kernel", "older_frameworks", OLDER, "kernel_"),
    Client("strands-agents", "older_frameworks", OLDER, "strands_"),
    Client("crewai", "crewai_", CREWAI),
    Client("openai", "openai", NPM),
    Client("@anthropic-ai/sdk", "anthropic", NPM),
    Client("cohere-ai", "cohere", NPM),
    Client("@ai-sdk/openai", "ai_sdk", NPM, "openai_"),
    Client("@ai-sdk/openai-compatible", "ai_sdk", NPM, "compatible_"),
    Client("@ai-sdk/anthropic", "ai_sdk", NPM, "anthropic_"),
    Client("@ai-sdk/cohere", "ai_sdk", NPM, "cohere_"),
    Client("@langchain/openai", "langchain", NPM, "openai_"),
    Client("@langchain/anthropic", "langchain", NPM, "anthropic_"),
    Client("@langchain/cohere", "langchain", NPM, "cohere_"),
    Client("@openai/agents", "frameworks", NPM, "agents_"),
    Client("@mastra/core", "frameworks", NPM, "mastra_"),
    Client("genkit", "frameworks", NPM, "genkit_"),
    Client("groq-sdk", "vendors", NPM, "groq_"),
    Client("@huggingface/inference", "frameworks", NPM, "huggingface_"),
)
NO_STORAGE = (
    "the client counts on stored responses; OpenAI's server refuses it too for an organisation that stores nothing"
)
REFUSALS = {
    ("openai", "tokens_vectors"): (
        "token arrays are refused",
        "the ids are of OpenAI's tokenizer, so the model would embed other words; LangChain's OpenAIEmbeddings sends "
        "texts with `check_embedding_ctx_length=False`",
    ),
    ("agent-framework-openai", "responses_tool"): (
        "stores no responses",
        f"{NO_STORAGE}; `store` false makes it send the conversation, as `stateless_tool` does",
    ),
    **{
        ("llama-index-llms-anthropic", call): (
            "Cannot instantiate typing.Union",
            "the client fails before it asks: anthropic 2 made a union of `MessageParam`, which it calls",
        )
        for call in ("chat", "stream")
    },
    ("@ai-sdk/openai (npm)", "responses_tool"): (
        "stores no responses",
        f"{NO_STORAGE}; `store` false makes it send the conversation, as `stateless_tool` does",
    ),
}
"""Calls that the gateway refuses, or the client fails at by itself: words of the error, and the reason."""
TEXT = "Hello wörld"
VALUES: dict[str, Any] = {
    **dict.fromkeys(("chat", "responses", "completion"), TEXT),
    "tool": [1, "Two."],
    "schema": {"a": 1},
    "best": 1,
}
"""Answers by the last word of a call's name."""


def is_right(call: str, answer: Any, vectors: Any) -> bool:
    """Returns True if the client returned the answer of the model behind the gateway."""
    kind = call.rsplit("_", 1)[-1]
    if kind == "stream":
        pieces = [piece for piece in answer if piece]
        return len(pieces) > 1 and "".join(pieces) == TEXT
    if kind == "count":
        return isinstance(answer, int) and answer > 5
    return bool(answer == (vectors if kind == "vectors" else VALUES[kind]))


Lines = dict[tuple[str, str], dict[str, dict[str, Any]]]
"""The lines of a program in its environment, one for each call."""


def calls_of(client: Client, lines: Lines) -> dict[str, dict[str, Any]]:
    """Returns the client's calls by name without the prefix, each with its line."""
    printed = lines[client.program, client.environment]
    own = {name: line for name, line in printed.items() if name.startswith(client.prefix)}
    place = (client.program, client.environment)
    beside = {neighbour.prefix for neighbour in CLIENTS if (neighbour.program, neighbour.environment) == place}
    longer = [prefix for prefix in beside - {client.prefix} if prefix.startswith(client.prefix)]
    own = {name: line for name, line in own.items() if not name.startswith(tuple(longer))}
    return {name.removeprefix(client.prefix) or name.rsplit("_", 1)[-1]: line for name, line in own.items()}


def rows(lines: Lines) -> list[str]:
    """Returns the table's rows in Markdown, in the order of `CLIENTS`."""
    table = ["| client | version | answered | refused, and why |", "| --- | --- | --- | --- |"]
    for client in CLIENTS:
        calls = calls_of(client, lines)
        refused = [call for call in calls if (client.label, call) in REFUSALS]
        answered = ", ".join(f"`{call}`" for call in calls if call not in refused)
        reasons = "; ".join(f"`{call}`: {REFUSALS[client.label, call][1]}" for call in refused)
        table.append(f"| {client.label} | {client.version} | {answered} | {reasons} |")
    return table
