"""vLLM's `POST /tokenize`, the ids that a chat or a completion would send, without sending it; and `/detokenize`."""

from __future__ import annotations

from gateway.chat import conversation_of, ids
from gateway.cohere import spelled, text_of_ids
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
        fields.only("add_special_tokens", False, because="the template writes the special tokens")
        spells = fields.flag("return_token_strs", False)
        conversation = await conversation_of(fields, model, prompter, request.gateway.pauses)
        fields.close()
        tokens = await ids(request, model, conversation)
    else:
        (prompt,) = prompts_of(fields, 1)
        adds_special, spells = fields.flag("add_special_tokens", True), fields.flag("return_token_strs", False)
        fields.close()
        tokens = await prompt_ids(request, prompt, model, "prompt")
        if not adds_special and isinstance(prompt, str):
            tokens = await prompter.without_special(tokens, request.key.tenant)
    request.let_go()
    request.exchange.record.read_tokens = len(tokens)
    before = compact({"count": len(tokens), "max_model_len": model.context_tokens})[:-1]
    texts = f',"token_strs":{compact(await spelled(request, prompter, tokens))}' if spells else ""
    content = f'{before},"tokens":{compact(list(tokens))}{texts}}}'  # 5 ms for 128 thousand
    await request.exchange.whole(content.encode(), b"application/json")


async def detokenize(request: Request) -> None:
    await request.exchange.json({"prompt": text_of_ids(request)})
