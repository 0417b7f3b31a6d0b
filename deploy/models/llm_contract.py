"""The tensors of a served LLM: one contract for the PyTorch path and for the engine path.

The gateway speaks these tensors and no others. Both models are written for them: files/llm/llmapi.py on the PyTorch
path, files/llm/completion.py in front of an engine. The file imports nothing of this repository and runs on Python
3.10, so a copy of it lies beside the programs that serve.

- No tensor has a batch dimension: one request is one prompt (`max_batch_size: 0`). A client streams with gRPC's
  ModelStreamInfer; an event is a response.
- A prompt is either `text_input` or `prompt_token_ids`, never both. Ids are taken as they are: nothing is put before
  them, so a rendered template gets no second BOS and a user's text forges no control token.
- An event belongs to one sequence, `sequence_index`, and brings what is new since that sequence's last event: text in
  `text_output`, ids in `token_ids`. Text is held back while it may be the beginning of a stop string.
- A sequence's last event has a `finish_reason`: "stop", "length" or "timeout"; "" before that. `stop_reason` is then
  the stop string, or the stop token's id in digits, or "" for the model's own end. No `text_output` has a stop string.
- Counts come with a sequence's last event. `num_output_tokens` counts what was generated, stop tokens included, so it
  may be more than the ids that were sent.
- Without `streaming` a sequence has one event. A model that is not decoupled answers one sequence, without `streaming`.
- An error ends the request. Its code: INVALID_ARG for a mistake in the request, UNSUPPORTED for what this release
  cannot do, UNAVAILABLE when the queue is full, CANCELLED when the client left, INTERNAL otherwise.
- Closing the gRPC stream cancels the request. Request ids have no meaning here, and no input stops another request.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tensor:
    """An input or output: Triton's type (without `TYPE_`), and its one dimension; -1 for a list of any length.

    `asked_by` names the input that requests an output; "" for an output that is always sent. That input is a BOOL, or
    the number of `logprobs`, which requests its outputs whenever it is present.
    """

    name: str
    type: str
    dims: tuple[int, ...] = (1,)
    asked_by: str = ""


PROMPTS = (
    Tensor("text_input", "STRING", (-1,)),  # a single text; the model's tokenizer adds its special tokens
    Tensor("prompt_token_ids", "INT32", (-1,)),
)

SAMPLING = (
    Tensor("sampling_param_max_tokens", "INT32"),  # default 32, as in TensorRT-LLM
    Tensor("sampling_param_min_tokens", "INT32"),
    Tensor("sampling_param_n", "INT32"),  # above 1: needs a temperature or a seed, and excludes greedy decoding
    Tensor("sampling_param_best_of", "INT32"),
    Tensor("sampling_param_temperature", "FP32"),  # 0 is greedy
    Tensor("sampling_param_top_k", "INT32"),
    Tensor("sampling_param_top_p", "FP32"),
    Tensor("sampling_param_min_p", "FP32"),
    Tensor("sampling_param_seed", "UINT64"),  # ignored by the PyTorch backend before 1.3: seeds are best effort
    # penalties and min_p: UNSUPPORTED on the PyTorch path before 1.3, whose sampler would ignore them, unless neutral
    Tensor("sampling_param_frequency_penalty", "FP32"),
    Tensor("sampling_param_presence_penalty", "FP32"),
    Tensor("sampling_param_repetition_penalty", "FP32"),
    Tensor("sampling_param_stop", "STRING", (-1,)),  # matched in the text, whatever the tokens are
    Tensor("sampling_param_stop_token_ids", "INT32", (-1,)),
    Tensor("sampling_param_ignore_eos", "BOOL"),
    Tensor("sampling_param_skip_special_tokens", "BOOL"),  # default true
    Tensor("sampling_param_add_special_tokens", "BOOL"),  # concerns `text_input`; default true
    Tensor("sampling_param_logprobs", "INT32"),  # number of alternatives per token; 0: only the chosen token
    Tensor("sampling_param_exclude_input_from_output", "BOOL"),  # default false: the answer begins with `text_input`
)

GUIDES = ("json", "json_schema", "regex", "ebnf_grammar", "structural_tag")
"""Values of `guided_decoding_guide_type`. "json" takes no guide; the others take their guide as text."""

OTHERS = (
    Tensor("guided_decoding_guide_type", "STRING"),
    Tensor("guided_decoding_guide", "STRING"),
    Tensor("lora_name", "STRING"),  # an adapter that the plan names
    Tensor("cache_salt", "STRING"),  # requests share cached prefixes only with requests of the same salt
    Tensor("streaming", "BOOL"),
    Tensor("return_token_ids", "BOOL"),
    Tensor("return_counts", "BOOL"),
    Tensor("return_finish_reason", "BOOL"),
    Tensor("return_stop_reason", "BOOL"),
    Tensor("return_cumulative_logprob", "BOOL"),
)

INPUTS = PROMPTS + SAMPLING + OTHERS
"""All inputs are optional for Triton; the model itself requires exactly one of the two prompts."""

OUTPUTS = (
    Tensor("text_output", "STRING", (-1,)),  # one text per event
    Tensor("sequence_index", "INT32"),  # 0 to n - 1
    Tensor("token_ids", "INT32", (-1,), "return_token_ids"),
    Tensor("finish_reason", "STRING", (-1,), "return_finish_reason"),
    Tensor("stop_reason", "STRING", (-1,), "return_stop_reason"),
    Tensor("num_input_tokens", "INT32", (1,), "return_counts"),
    Tensor("num_output_tokens", "INT32", (1,), "return_counts"),
    Tensor("num_cached_tokens", "INT32", (1,), "return_counts"),  # -1 if this release does not report it
    Tensor("cumulative_logprob", "FP32", (-1,), "return_cumulative_logprob"),
    Tensor("token_logprobs", "FP32", (-1,), "sampling_param_logprobs"),  # of each id of `token_ids`
    Tensor("top_logprob_ids", "INT32", (-1, -1), "sampling_param_logprobs"),  # [ids, alternatives], best first,
    Tensor("top_logprobs", "FP32", (-1, -1), "sampling_param_logprobs"),  # filled up with id -1 and -inf
)


def model_name(name: str, path: str) -> str:
    return f"{name}_completion" if path == "engine" else name
