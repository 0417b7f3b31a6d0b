"""`POST /tokenize`: the ids that a chat or a completion would send, counted before it is sent; as vLLM's path."""

from __future__ import annotations

from gateway.chat import conversation_of, ids
from gateway.completions import ids as prompt_ids
from gateway.request import Request


async def tokenize(request: Request) -> None:
    """The ids of `messages`, under the model's template, or of `prompt` are answered; no model is asked."""
    fields = request.fields()
    model, _ = request.model(fields.text("model"), "llm")
    prompter = request.gateway.prompters[model.name]
    if fields.has("messages"):
        conversation = conversation_of(fields, model, prompter)
        fields.close()
        tokens = await ids(prompter, conversation)
    else:
        tokens = await prompt_ids(fields, prompter)
        fields.close()
    answer = {"count": len(tokens), "max_model_len": model.context_tokens, "tokens": tokens}
    await request.exchange.json(answer)
