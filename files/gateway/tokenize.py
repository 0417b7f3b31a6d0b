"""`POST /tokenize`, vLLM's path: the ids that a chat or a completion would send, without sending it."""

from __future__ import annotations

from gateway.chat import conversation_of, ids
from gateway.completions import ids as prompt_ids
from gateway.completions import prompts_of
from gateway.exchange import compact
from gateway.request import Request


async def tokenize(request: Request) -> None:
    """Answers the ids of `messages`, under the model's template, or of `prompt`, without asking a model.

    The tokens are charged to the key.
    """
    fields = request.fields()
    reason = "this path counts the tokens of an LLM's `prompt` or `messages`; an encoder's answer has `usage`"
    fields.only("inputs", because=reason)
    model, _ = request.model(fields.text("model"), "llm")
    prompter = request.gateway.prompters[model.name]
    request.pay_for(request.size)
    if fields.has("messages"):
        fields.only("prompt", because="send either `messages` or `prompt`")
        conversation = await conversation_of(fields, model, prompter, request.gateway.pauses)
        fields.close()
        tokens = await ids(request, model, conversation)
    else:
        (prompt,) = prompts_of(fields, 1)
        fields.close()
        tokens = await prompt_ids(request, prompt, model, "prompt")
    request.let_go()
    request.exchange.record.read_tokens = len(tokens)
    before = compact({"count": len(tokens), "max_model_len": model.context_tokens})[:-1]
    content = f'{before},"tokens":{compact(list(tokens))}}}'  # 5 ms for 128 thousand
    await request.exchange.whole(content.encode(), b"application/json")
