"""`POST /v1/chat/completions`, streamed or whole."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from gateway.answer_parts import Call, Content, Part, Reasoning
from gateway.call_formats import SPECIAL
from gateway.events import Event
from gateway.exchange import compact
from gateway.fields import FieldError, Fields
from gateway.generation import FINISHES, Generation, most_characters, refuse_longer, room, stream_of
from gateway.load import Pauses
from gateway.logprobs import content_of
from gateway.messages import messages_of
from gateway.prompts import OURS
from gateway.request import Request
from gateway.sampling import endless, logprobs_of, refuse_logprobs, sampling_of
from gateway.settings import ModelSettings
from gateway.tokens import Tokens
from gateway.tools import Tools, tools_of
from gateway.unsupported import MOST_IDENTITY, refuse_the_rest

PREFIX = "chatcmpl"
SWITCHES = ("enable_thinking", "thinking")
"""Variables by which templates turn reasoning on or off: Qwen's and GLM's, and DeepSeek's and Granite's."""
UNREAD_SWITCH = "this model's template does not turn reasoning on or off"


async def chat_completions(request: Request) -> None:
    """Sends the model's answer."""
    chat = await understood(request)
    await (streamed if chat.streams else whole)(chat)


async def understood(request: Request, cuts_answer: bool = False) -> Generation:
    """The generation of the request, with its prompt tokenised. `cuts_answer`: too long an answer ends at the limit.

    Raises: FieldError, ApiError for every unsupported request.
    """
    fields, gateway = request.fields(), request.gateway
    name = fields.text("model")
    model, _ = request.model(name, "llm")
    prompter = gateway.prompters[model.name]
    conversation = await conversation_of(fields, model, prompter, gateway.pauses)
    tools = conversation.tools
    sampling = sampling_of(fields, prompter.defaults, model.context_tokens, model.no_guide)
    sampling = endless(fields, sampling, model.is_over_http)
    if sampling.stop and model.is_harmony:
        raise FieldError("stop", "`stop`: a stop string would also end this model's reasoning", "unsupported")
    if sampling.guide and tools.offered and tools.choice == "auto":
        # A guide would apply to the whole answer, which may be a call: so the prompt states the format, and no guide
        # enforces it.
        if not fields.passes_over:
            reason = "an answer in this format cannot call tools; leave out `tools`"
            raise FieldError("response_format", f"`response_format`: {reason}", "unsupported")
        fields.note("response_format")
        add_format_instruction(conversation.messages, sampling.guide)
        sampling = replace(sampling, guide=None)
    guide = tools.guide() or sampling.guide
    shows_special = bool(tools.offered) and model.tool_parser in SPECIAL
    sampling = replace(sampling, guide=guide, logprobs=logprobs_of(fields), shows_special=shows_special)
    refuse_logprobs(sampling, model.has_ids)
    counts_thoughts = bool(model.reasoning_parser) and not guide
    sampling = replace(sampling, stop_ids=prompter.stop_ids, returns_ids=model.is_harmony or counts_thoughts)
    streams, reports_usage = stream_of(fields)
    cache_key = fields.text("prompt_cache_key", "", most=MOST_IDENTITY)
    refuse_the_rest(fields)
    fields.close()
    for switch in prompter.template.names.intersection(SWITCHES) if guide else ():
        # No reasoning, because the guide applies from the first token on.
        conversation.variables.setdefault(switch, False)
    prompt = await ids(request, model, conversation)
    wanted = sampling.max_tokens
    if cuts_answer:
        sampling = replace(sampling, max_tokens=min(wanted, room(model, len(prompt), 0, "messages")))
    max_tokens = room(model, len(prompt), sampling.max_tokens, "messages")
    generation = Generation(request, name, model, prompt, sampling, max_tokens, streams, reports_usage, cache_key)
    generation.is_cut = sampling.max_tokens < wanted
    generation.readers = prompter.readers(model, tools, bool(guide), prompt, sampling.sequences)
    return generation


@dataclass
class Conversation:
    """A template's input: messages, the client's own variables, and the tools that the template may show."""

    messages: list[dict[str, Any]]
    variables: dict[str, Any]
    tools: Tools


async def conversation_of(fields: Fields, model: ModelSettings, prompter: Tokens, pauses: Pauses) -> Conversation:
    """The conversation in the request's fields, in the form that the model's template reads."""
    template = prompter.template
    tools = tools_of(fields, model, template.names)
    messages = await messages_of(fields, template.source, pauses)
    return Conversation(messages, variables_of(fields, prompter), tools)


def variables_of(fields: Fields, prompter: Tokens) -> dict[str, Any]:
    """The client's own variables of the template, each of which the template reads."""
    template_fields = fields.inner("chat_template_kwargs")
    variables = {
        name: template_fields.value(name)
        for name in sorted(prompter.template.names - OURS)
        if template_fields.has(name)
    }
    for name in OURS:
        template_fields.only(name, because="the gateway sets this variable itself")
    template_fields.close()
    switches = prompter.template.names.intersection(SWITCHES)
    for name, read in (("enable_thinking", _enabled), ("thinking", _typed)):
        if not switches:
            fields.ignore(name, because=UNREAD_SWITCH)
        elif fields.has(name) and (is_on := read(fields, name)) is not None:
            variables |= {switch: is_on for switch in switches if switch not in variables}
    if fields.has("reasoning_effort"):
        effort = fields.text("reasoning_effort")
        if "reasoning_effort" in prompter.template.names:
            variables["reasoning_effort"] = effort
        elif effort == "none" and switches:  # OpenAI's word for no reasoning
            variables = dict.fromkeys(switches, False) | variables
        elif fields.passes_over:
            fields.note("reasoning_effort")
        else:
            reason = "this model's template does not support a reasoning effort"
            raise FieldError("reasoning_effort", f"`reasoning_effort`: {reason}", "unsupported")
    return variables


def _enabled(fields: Fields, name: str) -> bool | None:
    """Qwen's form of the switch: a boolean."""
    return fields.flag(name)


def _typed(fields: Fields, name: str) -> bool | None:
    """DeepSeek's and GLM's form: an object with a type; None leaves the template's default."""
    section = fields.inner(name)
    kind = section.text("type", choices=("enabled", "disabled", "auto", "adaptive"))
    section.close()
    return {"enabled": True, "disabled": False}.get(kind)


def add_format_instruction(messages: list[dict[str, Any]], guide: tuple[str, str]) -> None:
    """Adds the format of an answer without tool calls to the first instruction of the messages."""
    kind, text = guide
    formats = {"json_schema": f"JSON that keeps this schema: {text}", "json": "JSON"}
    line = f"Unless you call a tool, answer with {formats.get(kind, f'a text that matches {text}')}"
    if messages[0]["role"] in ("system", "developer"):
        messages[0]["content"] = f"{messages[0]['content']}\n\n{line}"
    else:
        messages.insert(0, {"role": "system", "content": line})


async def ids(request: Request, model: ModelSettings, conversation: Conversation) -> Sequence[int]:
    """The prompt's ids.

    Raises: FieldError if the template refuses the messages; ApiError if they are too long to be counted.
    """
    prompter = request.gateway.prompters[model.name]
    most = most_characters(model, prompter)
    refuse_longer(sum(len(message["content"]) for message in conversation.messages), most, model, "messages")
    prompt_parts = conversation.messages, conversation.variables, conversation.tools.offered
    try:
        return await prompter.ids(*prompt_parts, tenant=request.key.tenant, most=most, is_large=request.is_large)
    except FieldError:
        raise
    except ValueError as error:
        raise FieldError("messages", f"`messages`: {error}", "invalid_value") from None


async def streamed(chat: Generation) -> None:
    """Sends the answer's events as the model's arrive, each in one write; then the usage, if requested."""
    exchange, head = chat.request.exchange, chat.head("chat.completion.chunk", PREFIX)
    # All events share this beginning, so it is serialised once: a whole event took a fifth of the event's time.
    before = f'{compact(head)[:-1]},"choices":[{{"index":'
    after = '}],"usage":null}' if chat.reports_usage else "}]}"
    begun: set[int] = set()
    called: set[int] = set()

    def json_of(index: int, delta: str, finish: str = "null", logprobs: str = "null") -> str:
        return f'{before}{index},"delta":{delta},"logprobs":{logprobs},"finish_reason":{finish}{after}'

    async with aclosing(chat.events()) as events:
        async for event in events:
            ours: list[str] = []
            if event.sequence not in begun:
                begun.add(event.sequence)
                ours.append(json_of(event.sequence, '{"role":"assistant","content":""}'))
            parts, entries = parts_of(chat, event), logprobs(chat, event)
            logprobs_json = compact({"content": entries, "refusal": None}) if entries else "null"
            for delta in deltas(parts) or (['{"content":""}'] if entries else []):
                ours.append(json_of(event.sequence, delta, logprobs=logprobs_json))
                logprobs_json = "null"
            called |= {event.sequence for part in parts if isinstance(part, Call)}
            if event.finish:
                ours.append(json_of(event.sequence, "{}", compact(finish_of(event.finish, event.sequence in called))))
            if ours:
                await exchange.events_of(ours)
    if chat.reports_usage:
        await exchange.event({**head, "choices": [], "usage": chat.usage()})
    await exchange.done()


async def whole(chat: Generation) -> None:
    """Sends the whole answer, with its usage."""
    entries: list[list[str]] = [[] for _ in chat.readers]
    parts: list[list[Part]] = [[] for _ in chat.readers]
    finishes = [""] * len(chat.readers)
    async with aclosing(chat.events()) as events:
        async for event in events:
            parts[event.sequence] += parts_of(chat, event)
            entries[event.sequence] += (made := [compact(entry) for entry in logprobs(chat, event)])
            chat.request.hold_answer(2 * sum(map(len, made)))
            finishes[event.sequence] = event.finish or finishes[event.sequence]
    choices = [
        (
            {"index": index, "message": (message := message_of(sequence_parts))},
            finish_of(finish, "tool_calls" in message),
        )
        for index, (sequence_parts, finish) in enumerate(zip(parts, finishes, strict=True))
    ]
    pieces = [compact(chat.head("chat.completion", PREFIX))[:-1] + ',"choices":[']
    for (choice, finish), listed in zip(choices, entries, strict=True):
        pieces.append(f'{"," if choice["index"] else ""}{compact(choice)[:-1]},"logprobs":')
        tells = chat.sampling.logprobs is not None
        pieces.append(f'{{"content":[{",".join(listed)}],"refusal":null}}' if tells else "null")
        pieces.append(f',"finish_reason":{compact(finish)}}}')
    pieces.append(f'],"usage":{compact(chat.usage())}}}')
    await chat.request.exchange.whole_of([piece.encode() for piece in pieces], b"application/json")


def parts_of(chat: Generation, event: Event) -> list[Part]:
    """The parts of an event; a sequence's last event also releases the parts that its reader held back."""
    reader = chat.readers[event.sequence]
    parts = reader.read(event.text, event.ids)
    return parts + reader.end() if event.finish else parts


def deltas(parts: list[Part]) -> list[str]:
    """The JSON of the `delta` of each event for these parts."""
    json_deltas: list[str] = []
    for part in parts:
        if not isinstance(part, Call):
            name = "content" if isinstance(part, Content) else "reasoning_content"
            json_deltas.append(f'{{"{name}":{compact(part.text)}}}')
            continue
        first = {"id": part.identity, "type": "function"} if part.name else {}
        function = {"name": part.name} if part.name else {}
        call = {"index": part.index, **first, "function": {**function, "arguments": part.arguments}}
        json_deltas.append(compact({"tool_calls": [call]}))
    return json_deltas


def message_of(parts: list[Part]) -> dict[str, Any]:
    """The message made of the parts. A message with only calls has no content."""
    reasoning = "".join(part.text for part in parts if isinstance(part, Reasoning))
    content = "".join(part.text for part in parts if isinstance(part, Content))
    calls: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Call) and part.name:
            function = {"name": part.name, "arguments": part.arguments}
            calls.append({"id": part.identity, "type": "function", "function": function})
        elif isinstance(part, Call):
            calls[part.index]["function"]["arguments"] += part.arguments
    message: dict[str, Any] = {"role": "assistant", "content": None if calls and not content else content}
    message |= {"refusal": None} | ({"reasoning_content": reasoning} if reasoning else {})
    return message | ({"tool_calls": calls} if calls else {})


def finish_of(finish: str, has_called: bool) -> str:
    return "tool_calls" if has_called and finish == "stop" else FINISHES.get(finish, finish)


def logprobs(chat: Generation, event: Event) -> list[dict[str, Any]]:
    """An entry for each token of the event, if the client requested them."""
    if chat.sampling.logprobs is None:
        return []
    return content_of(event.outputs, chat.request.gateway.prompters[chat.model.name].spelled)
