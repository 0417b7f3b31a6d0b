"""google-adk, llama-index, magentic, Microsoft's agent-framework, mistralai, outlines, smolagents and voyageai."""

from typing import Any

import pydantic
from calling import DOCUMENTS, HELLO, KEY, KINDS, QUERY, TEXTS, URL, V1, add, added, run


class Answer(pydantic.BaseModel):
    a: int


async def adk_answer(**more: Any) -> Any:
    from google.adk.agents import LlmAgent
    from google.adk.models.lite_llm import LiteLlm
    from google.adk.runners import InMemoryRunner

    model = LiteLlm(model="openai/llama", api_base=V1, api_key=KEY)
    events = await InMemoryRunner(agent=LlmAgent(name="a", model=model, **more)).run_debug("hello", quiet=True)
    content: Any = events[-1].content
    return "".join(part.text or "" for part in content.parts)


async def adk_chat() -> Any:
    return await adk_answer()


async def adk_tool() -> Any:
    answer = await adk_answer(tools=[add])
    return [*added, answer]


def llama_index_anthropic() -> Any:
    from llama_index.llms.anthropic import Anthropic

    return Anthropic(model="claude-sonnet-4-0", base_url=URL, api_key=KEY)


def llama_index_anthropic_chat() -> Any:
    return llama_index_anthropic().complete("hello").text


def llama_index_anthropic_stream() -> list[str]:
    return [event.delta for event in llama_index_anthropic().stream_complete("hello") if event.delta]


def llama_index_vectors() -> Any:
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding

    return OpenAILikeEmbedding(model_name="nomic", api_base=V1, api_key=KEY).get_text_embedding_batch(TEXTS)


def llama_index_best() -> Any:
    from llama_index.core.schema import NodeWithScore, TextNode
    from llama_index.postprocessor.cohere_rerank import CohereRerank

    nodes = [NodeWithScore(node=TextNode(text=text), score=0) for text in DOCUMENTS]
    rerank = CohereRerank(model="bge", base_url=URL, api_key=KEY, top_n=1)
    (best,) = rerank.postprocess_nodes(nodes, query_str=QUERY)
    return DOCUMENTS.index(best.node.text)


def magentic_chat() -> Any:
    from magentic import OpenaiChatModel, UserMessage

    return OpenaiChatModel("llama", base_url=V1, api_key=KEY).complete([UserMessage("hello")]).content


def magentic_schema() -> Any:
    from magentic import OpenaiChatModel, UserMessage

    model: Any = OpenaiChatModel("llama", base_url=V1, api_key=KEY)
    return model.complete([UserMessage("hello")], output_types=[Answer]).content.model_dump()


def outlines_schema() -> Any:
    import openai
    import outlines

    model = outlines.from_openai(openai.OpenAI(base_url=V1, api_key=KEY), "llama")
    return Answer.model_validate_json(model("hello", Answer)).model_dump()


def outlines_vllm_schema() -> Any:
    import openai
    import outlines

    model = outlines.from_vllm(openai.OpenAI(base_url=V1, api_key=KEY), "llama")
    return Answer.model_validate_json(model("hello", Answer)).model_dump()


def smolagents_model() -> Any:
    from smolagents import OpenAIModel

    return OpenAIModel("llama", api_base=V1, api_key=KEY)


def smolagents_chat() -> Any:
    return smolagents_model()([{"role": "user", "content": [{"type": "text", "text": "hello"}]}]).content


def smolagents_tool() -> Any:
    from smolagents import ToolCallingAgent
    from smolagents import tool as decorated

    @decorated
    def add(a: int) -> str:
        """Adds.

        Args:
            a: A number.
        """
        added.append(a)
        return "2"

    ToolCallingAgent(tools=[add], model=smolagents_model(), max_steps=1, verbosity_level=0).run("hello")
    return [added[0], "Two."]


async def microsoft_chat() -> Any:
    from agent_framework.openai import OpenAIChatCompletionClient

    client: Any = OpenAIChatCompletionClient(model="llama", base_url=V1, api_key=KEY)
    return (await client.as_agent(name="a").run("hello")).text


async def microsoft_responses() -> Any:
    from agent_framework.openai import OpenAIChatClient

    client: Any = OpenAIChatClient(model="llama", base_url=V1, api_key=KEY)
    return (await client.as_agent(name="a").run("hello")).text


async def microsoft_tool() -> Any:
    from agent_framework.openai import OpenAIChatCompletionClient

    client: Any = OpenAIChatCompletionClient(model="llama", base_url=V1, api_key=KEY)
    result = await client.as_agent(name="a", tools=[add]).run("hello")
    return [*added, result.text]


async def microsoft_responses_tool(**more: Any) -> Any:
    from agent_framework.openai import OpenAIChatClient

    client: Any = OpenAIChatClient(model="llama", base_url=V1, api_key=KEY)
    result = await client.as_agent(name="a", tools=[add], **more).run("hello")
    return [*added, result.text]


async def microsoft_stateless_tool() -> Any:
    return await microsoft_responses_tool(default_options={"store": False})


def mistral_chat() -> Any:
    from mistralai.client import Mistral

    return Mistral(api_key=KEY, server_url=URL).chat.complete(model="llama", messages=HELLO).choices[0].message.content


def mistral_vectors() -> Any:
    from mistralai.client import Mistral

    answer = Mistral(api_key=KEY, server_url=URL).embeddings.create(model="nomic", inputs=TEXTS)
    return [item.embedding for item in answer.data]


def voyage_vectors() -> Any:
    import voyageai

    client: Any = voyageai.Client(api_key=KEY, base_url=V1)
    return client.embed(TEXTS, model="nomic", input_type="document").embeddings


def voyage_best() -> int:
    import voyageai

    client: Any = voyageai.Client(api_key=KEY, base_url=V1)
    return int(client.rerank(QUERY, DOCUMENTS, model="bge", top_k=1).results[0].index)


run(**{name: call for name, call in list(globals().items()) if name.rsplit("_", 1)[-1] in KINDS})
