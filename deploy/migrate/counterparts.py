"""Options of other servers that have a place in an inventory but no equivalent option of vLLM."""

from collections.abc import Mapping

from deploy.linter.options import Option
from deploy.migrate.places import COUNT, MOST_GPUS, Place, Placement, Settings, number

CHUNKS, EXPERTS, CACHED = "=chunks", "=experts", "=cached"
PASS_TOKENS, ITEMS, EMBEDS, FIRST_GPU = "=pass-tokens", "=items", "=embeds", "=first-gpu"
"""Places that only other servers' options lead to; their names are no option of vLLM."""


def _chunks(call: Settings, option: Option) -> Placement:
    """SGLang's --chunked-prefill-size: the tokens of a part, or -1 for prompts processed whole."""
    if option.value == "-1":
        call.model["chunked_prefill"] = "False"
        return "chunked_prefill=False", ""
    place, why = number(call.model, "max_num_tokens", option)
    if place:
        call.model["chunked_prefill"] = "True"
        place = f"chunked_prefill=True, {place}"
    return place, why


def _ranks_of_experts(call: Settings, option: Option) -> Placement:
    if not COUNT.fullmatch(option.value):
        return "", f"{option.value or 'no value'} is not a number of GPUs"
    if option.value != "1":
        call.parallel["expert"] = option.value
    return f"parallel=Parallel(expert={option.value})", ""


def _cached_tokens(call: Settings, option: Option) -> Placement:
    place, why = number(call.kv_cache, "tokens", option)
    return (f"kv_cache=KVCache({place})" if place else ""), why


def _of_encoders(name: str) -> Place:
    return lambda call, option: number(call.encoder, name, option)


def _embeds(call: Settings, _option: Option) -> Placement:
    call.kind = "embedder"
    return "Embedder(…) or Reranker(…)", ""


def _first_gpu(call: Settings, option: Option) -> Placement:
    if not option.value.isdecimal() or int(option.value) >= MOST_GPUS:
        return "", f"{option.value or 'no value'} is not a GPU"
    call.devices = (int(option.value),)
    return "Server(gpus=…)", ""


COUNTERPARTS: Mapping[str, Place] = {
    CHUNKS: _chunks,
    EXPERTS: _ranks_of_experts,
    CACHED: _cached_tokens,
    PASS_TOKENS: _of_encoders("max_batch_tokens"),
    ITEMS: _of_encoders("max_items"),
    EMBEDS: _embeds,
    FIRST_GPU: _first_gpu,
}
