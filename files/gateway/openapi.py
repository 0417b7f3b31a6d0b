"""The gateway's interface as an OpenAPI 3.1 document, with the models of a key and the limits of the settings.

A request that breaks its schema is refused, and every answer keeps its schema. A request that keeps it is answered, or
refused for a reason that a schema cannot state. Fields that change nothing here are left out. The lines are more than
300 because each endpoint has its schema.

Fields are written as `name:type`, or `name?:type` if they may be absent. A type is a word of `words_of`, a schema's
name, a range `1..20` of whole numbers, or constants `=a,b`; `type[]` is a list of it, `type[1..20]` one of so many
items, and `|` separates alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from gateway.cohere import FORMS, MOST_IDS, TASKS
from gateway.dialects import EFFORTS
from gateway.exchange import compact
from gateway.messages import MOST_MESSAGES, MOST_PARTS
from gateway.models import usable
from gateway.request import Request
from gateway.rerank import SIDES
from gateway.responses import MOST_METADATA, MOST_METADATUM
from gateway.sampling import MOST_LOGPROBS, MOST_SEED, MOST_SEQUENCES, MOST_STOP, MOST_STOPS
from gateway.sampling_numbers import SAMPLING_NUMBERS
from gateway.settings import KINDS, Limits
from gateway.tools import MOST_TOOLS, WORDS
from gateway.unsupported import MOST_IDENTITY

Schema = dict[str, Any]
STATUSES = (400, 401, 403, 404, 405, 408, 413, 415, 429, 431, 500, 502, 503, 504)
SHARED = ("Models", "Model", "Info")
"""Answers of paths that Anthropic's clients also ask: with their header, errors have their form."""
MOST = 2**31 - 1
RANGE = re.compile(r"(-?\d+)\.\.(\d+)")
MODEL = re.compile(r"model\??:(\w+)")
LIST = re.compile(r"(.+)\[(?:(\d+)\.\.(\d+)?)?\]")
TEXT: Schema = {"type": "string"}
QUERY: Schema = {**TEXT, "pattern": r"\S"}
CLOSED: Schema = {"additionalProperties": False}
TOOL = """A function: {"type": "function", "function": {"name": …, "description": …, "parameters": …}}. Only models with
a tool parser take tools; with the choice none, no tool is read."""

PARTS, TEXTS, ITEM = (f"{name}[0..{MOST_PARTS}]" for name in ("Part", "TextPart", "ItemPart"))
TOOLS = f"tools?:tool[0..{MOST_TOOLS}]"
STOPS = f"stop[0..{MOST_STOPS}]"
SAMPLED = f"""{" ".join(f"{name}?:{name}" for name in SAMPLING_NUMBERS)} stream?:flag stream_options?:StreamOptions
    seed?:-{MOST_SEED}..{MOST_SEED} stop?:stop|{STOPS} max_tokens?:1..{MOST} max_completion_tokens?:1..{MOST}
    min_tokens?:0..{MOST} response_format?:AnswerFormat n?:1..{MOST_SEQUENCES} structured_outputs?:object"""
COHERE_SAMPLED = f"""stream?:flag max_tokens?:1..{MOST} k?:0..{MOST} p?:top_p stop_sequences?:{STOPS}
    temperature?:temperature frequency_penalty?:frequency_penalty presence_penalty?:presence_penalty
    response_format?:CohereFormat"""
CONVERSATION = f"""model:llm messages:AnthropicMessage[1..{MOST_MESSAGES}] system?:text|{TEXTS}
    tools?:AnthropicTool[0..{MOST_TOOLS}] tool_choice?:AnthropicChoice thinking?:Thinking output_config?:OutputConfig
    output_format?:AnthropicFormat"""
RESPONSE_INPUT = f"""model:llm input:text|Item[1..{MOST_MESSAGES}] instructions?:text
    tools?:ResponseTool[0..{MOST_TOOLS}] parallel_tool_calls?:flag store?:flag metadata?:metadata
    reasoning?:Reasoning text?:TextOptions include?:text[0..{MOST_TOOLS}] stream_options?:object"""
COHERE_V1 = f"""model:llm preamble?:text chat_history?:CohereTurn[0..{MOST_MESSAGES}]
    tools?:CohereTool[0..{MOST_TOOLS}] force_single_step?:flag {COHERE_SAMPLED}"""
EMBED = f"""model:embedder max_tokens?:1..{MOST} embedding_types?:form[1..{len(FORMS)}] truncate?:=NONE,END
    output_dimension?:width"""
SCORES = {
    f"Score_{second}": f"""model:reranker {first}:query|queries {second}:text|passages
        truncate_prompt_tokens?:whole_length user?:text"""
    for first, second in SIDES
}

BODIES = {
    "WrittenPart": "type:=text,input_text,output_text text:text",
    "RefusalPart": "type:=refusal refusal:text",
    "TextPart": "type?:=text text:text",
    "StreamOptions": "include_usage?:flag",
    "UserMessage": f"role:=system,developer,user content:text|Part[1..{MOST_PARTS}] name?:text",
    "AssistantMessage": f"""role:=assistant content?:text|{PARTS} tool_calls?:SentCall[0..{MOST_TOOLS}]
        reasoning_content?:text""",
    "ToolMessage": f"role:=tool tool_call_id:text content?:text|{PARTS}",
    "SentCall": "id:text type?:=function function:SentFunction",
    "SentFunction": "name:text arguments?:text",
    "Format": "type:=text,json_object",
    "JsonFormat": "type:=json value?:object schema?:object",
    "RegexFormat": "type:=regex value:text",
    "SchemaFormat": "type:=json_schema json_schema:NamedSchema",
    "NamedSchema": "name:text description?:text schema:object strict?:flag",
    "Chat": f"""model:llm messages:Message[1..{MOST_MESSAGES}] {TOOLS} tool_choice?:={",".join(WORDS)}|object
        parallel_tool_calls?:flag logprobs?:flag top_logprobs?:0..{MOST_LOGPROBS} reasoning_effort?:text
        chat_template_kwargs?:object prompt_cache_key?:identity safety_identifier?:identity user?:identity {SAMPLED}""",
    "Completion": f"model:llm prompt:prompts echo?:flag logprobs?:0..{MOST_LOGPROBS} user?:text {SAMPLED}",
    "ResponsePart": "type?:=input_text,output_text,text text:text",
    "ResponseMessage": f"type?:=message role:=user,system,developer,assistant content:text|{ITEM}",
    "CallItem": "type:=function_call call_id:text name:text arguments:text",
    "OutputItem": f"type:=function_call_output call_id:text output:text|{ITEM}",
    "ReasoningItem": "type:=reasoning",
    "ResponseTool": "type:=function name:text description?:text strict?:flag",
    "Reasoning": f"effort?:=,{','.join(EFFORTS)} summary?:=,auto,concise,detailed",
    "TextOptions": "format?:TextFormat",
    "TextFormat": "type:=text,json_object,json_schema name?:any schema?:any",
    "ResponseInput": RESPONSE_INPUT,
    "Response": f"""{RESPONSE_INPUT} max_output_tokens?:1..{MOST} temperature?:temperature top_p?:top_p stream?:flag
        prompt_cache_key?:identity safety_identifier?:identity user?:identity""",
    "TextContent": "type:=text text:text",
    "DocumentBlock": "type:=document source:Source title?:text context?:text citations?:object",
    "TextSource": "type:=text data:text",
    "PartsSource": f"type:=content content:text|{TEXTS}",
    "SearchBlock": f"type:=search_result content:text|{TEXTS} title?:text source?:text citations?:object",
    "ResultBlock": f"type:=tool_result tool_use_id:text content?:text|ResultPart[0..{MOST_PARTS}] is_error?:flag",
    "CallBlock": "type:=tool_use id:text name:text input:object",
    "ThoughtBlock": "type:=thinking thinking:text",
    "SecretBlock": "type:=redacted_thinking",
    "AnthropicMessage": f"role:=user,assistant,system content:text|Block[1..{MOST_PARTS}]",
    "AnthropicTool": "type?:=custom name:text description?:text strict?:flag",
    "AnthropicChoice": "type?:=auto,any,none,tool",
    "AnthropicFormat": "type:=json_schema schema?:any",
    "OutputConfig": f"effort?:=,{','.join(EFFORTS)} format?:AnthropicFormat",
    "UserMetadata": "user_id?:identity",
    "Thinking": f"type?:=,enabled,adaptive,between_tools,disabled budget_tokens?:1..{MOST}",
    "CountTokens": CONVERSATION,
    "Messages": f"""{CONVERSATION} max_tokens:1..{MOST} stop_sequences?:{STOPS} stream?:flag temperature?:temperature
        top_p?:top_p top_k?:top_k metadata?:UserMetadata""",
    "CohereSent": f"role:=user,system content:text|{TEXTS}",
    "CohereDocument": "type:=document document:object",
    "CohereToolMessage": f"role:=tool tool_call_id:text content:text|CohereToolPart[0..{MOST_PARTS}]",
    "CohereAssistant": f"role:=assistant content?:text|CohereSaidPart[0..{MOST_PARTS}] tool_plan?:text",
    "CohereFormat": "type?:=text,json_object json_schema?:any schema?:any",
    "CohereThought": "type?:=,enabled,disabled",
    "CohereChat": f"""model:llm messages:CohereMessage[1..{MOST_MESSAGES}] {TOOLS}
        tool_choice?:=,REQUIRED,NONE thinking?:CohereThought strict_tools?:flag citation_options?:object
        {COHERE_SAMPLED}""",
    "CohereTurn": "role:=USER,CHATBOT,SYSTEM,TOOL",
    "CohereTool": "name:text description?:text parameter_definitions?:object",
    "CohereResult": f"call:CohereSentCall outputs?:any[0..{MOST_TOOLS}]",
    "CohereSentCall": "name:text parameters?:object",
    "CohereChatV1": f"{COHERE_V1} message:written tool_results?:CohereResult[0..{MOST_TOOLS}]",
    "CohereResultsV1": f"{COHERE_V1} message:text tool_results:CohereResult[1..{MOST_TOOLS}]",
    "CohereTokenize": "model:llm text:text",
    "CohereDetokenize": f"model:llm tokens:count[1..{MOST_IDS}]",
    "Embeddings": """model?:embedder|= input:text|embedded encoding_format?:form embedding_type?:form|form[1..1]
        dimensions?:width output_dimension?:width truncate?:cut truncation?:cut truncate_prompt_tokens?:whole_length
        normalize?:flag normalized?:flag user?:text""",
    "CohereInput": f"content:text|{TEXTS}",
    "CohereEmbedV1": f"{EMBED} texts:inputs input_type?:=,{','.join(TASKS)}",
    "CohereEmbed": f"{EMBED} texts:inputs input_type:={','.join(TASKS)}",
    "CohereEmbedInputs": f"{EMBED} inputs:contents input_type:={','.join(TASKS)}",
    "Document": "text:text",
    "Rerank": f"""model:reranker query:query documents:documents top_n?:1..{MOST} top_k?:1..{MOST}
        max_tokens_per_doc?:1..{MOST} truncation?:flag truncate_prompt_tokens?:whole_length return_documents?:flag
        raw_scores?:flag""",
    **SCORES,
    "Tokenize": "model:llm prompt:text|ids|prompt[1..1] add_special_tokens?:flag return_token_strs?:flag",
    "TokenizeChat": f"""model:llm messages:Message[1..{MOST_MESSAGES}] {TOOLS} parallel_tool_calls?:flag
        return_token_strs?:flag""",
    "TeiEmbed": "model?:embedder|= inputs:text|inputs truncate?:flag normalize?:flag dimensions?:width",
    "TeiRerank": "model?:reranker|= query:query texts:passages raw_scores?:flag return_text?:flag truncate?:flag",
}
"""Objects of requests. Their unknown fields are ignored, and null counts as absent."""
UNIONS = {
    "Message": "UserMessage|AssistantMessage|ToolMessage",
    "Item": "ResponseMessage|CallItem|OutputItem|ReasoningItem",
    "Part": "WrittenPart|RefusalPart",
    "ItemPart": "ResponsePart|RefusalPart",
    "AnswerFormat": "Format|SchemaFormat|JsonFormat|RegexFormat",
    "Source": "TextSource|PartsSource",
    "ResultPart": "TextPart|DocumentBlock|SearchBlock",
    "Block": "TextContent|DocumentBlock|SearchBlock|ResultBlock|CallBlock|ThoughtBlock|SecretBlock",
    "CohereToolPart": "TextPart|CohereDocument",
    "CohereSaidPart": "TextPart|ThoughtBlock",
    "CohereMessage": "CohereSent|CohereAssistant|CohereToolMessage",
    "Output": "MessageOutput|CallOutput|ReasoningOutput",
    "AnthropicContent": "TextBlock|ThinkingBlock|UseBlock",
    "CohereContent": "TextBlock|CohereThinking",
}
OPEN_ANSWERS = {
    "Model": """id:text object:=model created:count owned_by:text kind:kind root:text max_model_len:count
        dimensions?:count""",
    "Models": "object:=list data:Model[] models:CohereModel[]",
    "ResponseAnswer": """id:text object:=response created_at:count status:=completed,incomplete model:text
        output:Output[1..] usage:ResponseUsage store:no tools:object[] tool_choice:text|object""",
    "Ranked": "index:count relevance_score:number",
    "ByType": "float?:vector[1..] base64?:base64[1..]",
    "TurnAnswer": "role:text",
    "OpenApi": "openapi:text info:object paths:object components:object",
}
"""Objects of answers that may have further fields."""
HEAD = "id:text created:count model:text system_fingerprint:text|null"
ANSWERS = {
    "Chance": "token:text logprob:logprob bytes:0..255[]",
    "Logprob": f"token:text logprob:logprob bytes:0..255[] top_logprobs:Chance[0..{MOST_LOGPROBS}]",
    "Logprobs": "content:Logprob[] refusal:null",
    "Cached": "cached_tokens:count",
    "Reasoned": "reasoning_tokens:count",
    "Usage": """prompt_tokens:count completion_tokens:count total_tokens:count prompt_tokens_details:Cached
        completion_tokens_details?:Reasoned""",
    "ReadUsage": "prompt_tokens:count total_tokens:count",
    "Function": "name:text arguments:text",
    "Call": "id:text type:=function function:Function",
    "MessageAnswer": "role:=assistant content:text|null refusal:null reasoning_content?:text tool_calls?:Call[1..]",
    "Choice": "index:count message:MessageAnswer logprobs:Logprobs|null finish_reason:finish",
    "ChatAnswer": f"{HEAD} object:=chat.completion choices:Choice[1..] usage:Usage",
    "Listed": "tokens:text[] token_logprobs:logprob[] top_logprobs:chances[]|null text_offset:count[]",
    "Continuation": "index:count text:text logprobs:Listed|null finish_reason:finish",
    "CompletionAnswer": f"{HEAD} object:=text_completion choices:Continuation[1..] usage:Usage",
    "Text": "type:=output_text text:text annotations:text[0..0] logprobs:text[0..0]",
    "Thought": "type:=reasoning_text text:text",
    "MessageOutput": "id:text status:=completed,incomplete type:=message role:=assistant content:Text[1..1]",
    "CallOutput": "id:text status:=completed,incomplete type:=function_call call_id:text name:text arguments:text",
    "ReasoningOutput": """id:text status:=completed,incomplete type:=reasoning summary:text[0..0]
        content:Thought[1..1] encrypted_content:text|null""",
    "InputDetails": "cached_tokens:count cache_write_tokens:count",
    "ResponseUsage": """input_tokens:count input_tokens_details:InputDetails output_tokens:count
        output_tokens_details:Reasoned total_tokens:count""",
    "ResponseTokens": "object:=response.input_tokens input_tokens:count",
    "InputTokens": "input_tokens:count",
    "TextBlock": "type:=text text:text",
    "ThinkingBlock": "type:=thinking thinking:text signature:text",
    "UseBlock": "type:=tool_use id:text name:text input:object",
    "AnthropicUsage": """input_tokens:count cache_creation_input_tokens:count cache_read_input_tokens:count
        output_tokens:count""",
    "AnthropicAnswer": """id:text type:=message role:=assistant model:text content:AnthropicContent[]
        stop_reason:=end_turn,max_tokens,tool_use,model_context_window_exceeded stop_sequence:null
        usage:AnthropicUsage""",
    "Version": "version:text",
    "Units": "input_tokens:count output_tokens:count",
    "CohereThinking": "type:=thinking thinking:text",
    "CohereSaid": "role:=assistant content:CohereContent[] tool_calls?:Call[1..]",
    "CohereUsage": "billed_units:Units tokens:Units cached_tokens:count",
    "CohereAnswer": """id:text message:CohereSaid finish_reason:=COMPLETE,MAX_TOKENS,TOOL_CALL
        usage:CohereUsage""",
    "ChatMeta": "api_version:Version billed_units:Units tokens:Units",
    "CohereCall": "name:text parameters:object",
    "CohereAnswerV1": """response_id:text generation_id:text text:text chat_history:TurnAnswer[1..]
        finish_reason:=COMPLETE,MAX_TOKENS meta:ChatMeta tool_calls?:CohereCall[1..]""",
    "Meta": "api_version:Version",
    "CohereTokens": "tokens:count[] token_strings:text[] meta:Meta",
    "CohereText": "text:text meta:Meta",
    "EmbedMeta": "api_version:Version billed_units:InputTokens",
    "EmbedAnswer": """id:text response_type:=embeddings_by_type,embeddings_floats embeddings:ByType|vector[1..]
        texts:inputs meta:EmbedMeta""",
    "Embedding": "object:=embedding index:count embedding:base64|vector",
    "EmbeddingsAnswer": "id:text object:=list data:Embedding[1..] model:text usage:ReadUsage",
    "RankMeta": "api_version:Version tokens:InputTokens",
    "RerankAnswer": "id:text model:text results:Ranked[1..] data?:Ranked[1..] meta:RankMeta usage:ReadUsage",
    "Pair": "index:count object:=score score:number",
    "ScoreAnswer": "id:text object:=list created:count model:text data:Pair[1..] usage:ReadUsage",
    "TeiRank": "index:count score:number text?:text",
    "Detokenized": "prompt:text",
    "Tokens": "count:count max_model_len:count tokens:count[] token_strs?:text[]",
    "CohereModel": "name:text endpoints:=chat,embed,rerank[1..1] finetuned:flag context_length:count",
    "Info": """model_id:text model_type:object max_input_length:count max_client_batch_size:count
        auto_truncate:flag""",
    "OpenAiError": "message:text error:ErrorDetails",
    "ErrorDetails": "message:text type:text param:text|null code:text|null",
    "AnthropicError": "type:=error error:AnthropicDetails",
    "AnthropicDetails": "type:text message:text details?:object",
    "TeiError": "error:text error_type:text",
}
"""Objects of answers, without further fields."""


@dataclass(frozen=True)
class Route:
    """A path: its handler, its name in metrics and in the audit, its vendor, and the types of its answer and body."""

    answer: Callable[[Request], Awaitable[None]]
    label: str
    vendor: str
    result: str
    body: str = ""
    parameter: tuple[str, str] = ("", "")
    """The name and the place of its parameter."""

    @property
    def method(self) -> str:
        return "POST" if self.body else "GET"

    @cached_property
    def kind(self) -> str:
        """Kind of the models behind the path; their sizes bound its bodies."""
        match = MODEL.search(BODIES.get(self.body.partition("|")[0], ""))
        return match[1] if match else ""

    @property
    def error(self) -> str:
        return {"Anthropic": "AnthropicError", "TEI": "TeiError"}.get(self.vendor, "OpenAiError")


Routes = tuple[tuple[str, Route], ...]


def words_of(limits: Limits, dimensions: int) -> dict[str, Schema]:
    """The words of types; vectors have up to `dimensions` numbers."""
    number, logprob = {"type": "number"}, {"type": "number", "maximum": 0}
    prompt = either(TEXT, ids := items({"type": "integer", "minimum": 0}, 1))
    rows = {
        name: {"type": "integer" if row.is_whole else "number", "minimum": row.low, "maximum": row.high}
        for name, row in SAMPLING_NUMBERS.items()
    }
    metadatum = {**TEXT, "maxLength": MOST_METADATUM}
    return rows | {
        "any": {},
        "text": TEXT,
        "written": {**TEXT, "minLength": 1},
        "query": QUERY,
        "stop": {**TEXT, "minLength": 1, "maxLength": MOST_STOP},
        "identity": {**TEXT, "maxLength": MOST_IDENTITY},
        "base64": {**TEXT, "contentEncoding": "base64"},
        "count": {"type": "integer", "minimum": 0},
        "number": number,
        "logprob": logprob,
        "chances": {"type": "object", "additionalProperties": logprob},
        "flag": {"type": "boolean"},
        "cut": either({"type": "boolean"}, {"enum": ["NONE", "END"]}),
        "whole_length": {"const": -1},
        "no": {"const": False},
        "null": {"type": "null"},
        "object": {"type": "object"},
        "tool": {"type": "object", "description": TOOL},
        "metadata": {"type": "object", "additionalProperties": metadatum, "maxProperties": MOST_METADATA},
        "ids": ids,
        "prompt": prompt,
        "prompts": either(*prompt["anyOf"], items(prompt, 1, limits.inputs)),
        "inputs": items(TEXT, 1, limits.inputs),
        "embedded": items(either(TEXT, object_of("text:text", {"text": TEXT}) | CLOSED), 1, limits.inputs),
        "contents": items(reference("CohereInput"), 1, limits.inputs),
        "passages": items(TEXT, 1, limits.documents),
        "queries": items(QUERY, 1, limits.documents),
        "documents": items(either(TEXT, reference("Document")), 1, limits.documents),
        "width": {"type": "integer", "minimum": 1, "maximum": dimensions},
        "vector": items(number, 1, dimensions),
        "form": {"enum": list(FORMS)},
        "kind": {"enum": list(KINDS)},
        "finish": {"enum": ["stop", "length", "tool_calls"]},
        **{kind: reference(kind) for kind in (*KINDS, "model")},
    }


def items(of: Schema, least: int, most: int | None = None) -> Schema:
    return {"type": "array", "items": of, "minItems": least, **({} if most is None else {"maxItems": most})}


def either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def reference(name: str, folder: str = "schemas") -> Schema:
    return {"$ref": f"#/components/{folder}/{name}"}


def type_of(written: str, words: dict[str, Schema]) -> Schema:
    """The schema of a written type."""
    if "|" in written:
        return either(*(type_of(choice, words) for choice in written.split("|")))
    if match := LIST.fullmatch(written):
        return items(type_of(match[1], words), int(match[2] or 0), int(match[3]) if match[3] else None)
    if written.startswith("="):
        return {"enum": written[1:].split(",")}
    if match := RANGE.fullmatch(written):
        return {"type": "integer", "minimum": int(match[1]), "maximum": int(match[2])}
    return words[written] if written in words else reference(written)


def object_of(fields: str, words: dict[str, Schema], is_body: bool = False) -> Schema:
    """The schema of an object with these fields; an optional field of a body may be null."""
    properties, required = dict[str, Schema](), list[str]()
    for field in fields.split():
        name, _, written = field.partition(":")
        schema = type_of(written, words)
        if not name.endswith("?"):
            required.append(name)
        elif is_body:
            schema = either(schema, words["null"])
        properties[name.removesuffix("?")] = schema
    return {"type": "object", "properties": properties, "required": required}


def json_of(schema: Schema) -> Schema:
    return {"content": {"application/json": {"schema": schema}}}


def operation(path: str, row: Route, words: dict[str, Schema]) -> Schema:
    """The path's only method: its answers, its body, and its parameter."""
    answered = {"description": "the answer", **json_of(type_of(row.result, words))}
    if "stream?:" in BODIES.get(row.body.partition("|")[0], ""):
        answered["description"] = "the answer, or its vendor's events if the body has `stream`"
        answered["content"]["application/stream+json" if row.vendor == "Cohere v1" else "text/event-stream"] = {}
    refused = reference(row.error, "responses")
    if row.result in SHARED:
        refused = {"description": "refused", **json_of(either(reference(row.error), reference("AnthropicError")))}
    described: Schema = {
        "operationId": re.sub(r"\W", "_", path.lstrip("/")),
        "tags": [row.vendor],
        "responses": {"200": answered, **{str(status): refused for status in STATUSES}},
    }
    if row.body:
        described["requestBody"] = {"required": True, **json_of(type_of(row.body, words))}
    if (place := row.parameter[1]) == "path":
        described["parameters"] = [{"name": row.parameter[0], "in": place, "required": True, "schema": words["model"]}]
    elif place:
        described["parameters"] = [{"name": row.parameter[0], "in": place, "schema": TEXT}]
    return described


@lru_cache(maxsize=16)
def document(
    routes: Routes, models: tuple[tuple[str, str], ...], dimensions: int, limits: Limits, has_keys: bool
) -> bytes:
    """The document as JSON. `models`: the name and the kind of each."""
    words = words_of(limits, dimensions)
    names = {kind: [name for name, of_kind in models if of_kind == kind] for kind in KINDS}
    names["model"] = [name for name, _ in models]
    schemas = {kind: {"enum": listed} if listed else TEXT for kind, listed in names.items()}
    schemas |= {name: type_of(written, words) for name, written in UNIONS.items()}
    schemas |= {name: object_of(written, words, is_body=True) for name, written in BODIES.items()}
    schemas |= {name: object_of(written, words) for name, written in OPEN_ANSWERS.items()}
    schemas |= {name: object_of(written, words) | CLOSED for name, written in ANSWERS.items()}
    errors = sorted({row.error for _, row in routes})
    return compact(
        {
            "openapi": "3.1.0",
            "info": {"title": "enginehouse gateway", "version": "1"},
            "paths": {
                path + "{name}" * path.endswith("/"): {row.method.lower(): operation(path, row, words)}
                for path, row in routes
            },
            "components": {
                "schemas": schemas,
                "responses": {error: {"description": "refused", **json_of(reference(error))} for error in errors},
                "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            },
            "security": [{"key": []}] if has_keys else [],
        }
    ).encode()


async def answer(request: Request, routes: Routes) -> None:
    """Sends the document of these paths, with the models and aliases that the key may use."""
    settings = request.gateway.settings
    named = usable(settings, request.key)
    models = tuple(sorted((name, model.kind) for name, model in named.items()))
    dimensions = max([1, *(model.dimensions for model in named.values())])
    content = document(routes, models, dimensions, settings.limits, bool(settings.keys_file))
    await request.exchange.whole(content, b"application/json")
