"""Sends a prompt through the other models in sequence, by name (rehearsal stand-in)."""

import numpy as np
import triton_python_backend_utils as pb_utils

PREPROCESSED = {
    "INPUT_ID": "input_ids", "REQUEST_INPUT_LEN": "input_lengths", "DECODER_INPUT_ID": "decoder_input_ids",
    "BAD_WORDS_IDS": "bad_words_list", "STOP_WORDS_IDS": "stop_words_list", "EMBEDDING_BIAS": "embedding_bias",
    "OUT_PAD_ID": "pad_id", "OUT_END_ID": "end_id",
}  # fmt: skip
# Requested although always empty here: Triton refuses names that a configuration lacks, and this detects them.
ASKED_OF_PREPROCESSING = [
    *PREPROCESSED, "REQUEST_DECODER_INPUT_LEN", "OUT_PROMPT_TABLE_EXTRA_IDS", "PIXEL_VALUES", "IMAGE_SIZES",
    "IS_VIDEO_INPUT",
]  # fmt: skip
TO_PREPROCESSING = {
    "text_input": "QUERY", "decoder_text_input": "DECODER_QUERY", "max_tokens": "REQUEST_OUTPUT_LEN",
    "bad_words": "BAD_WORDS_DICT", "stop_words": "STOP_WORDS_DICT", "pad_id": "PAD_ID", "end_id": "END_ID",
}  # fmt: skip
TO_ENGINE = {
    "beam_width": "beam_width", "top_k": "runtime_top_k", "top_p": "runtime_top_p", "temperature": "temperature",
    "length_penalty": "len_penalty", "repetition_penalty": "repetition_penalty", "min_tokens": "min_tokens",
    "min_length": "min_length", "seed": "seed", "random_seed": "random_seed", "return_log_probs": "return_log_probs",
    "stream": "streaming", "lora_task_id": "lora_task_id", "exclude_input_in_output": "exclude_input_in_output",
    "return_perf_metrics": "return_perf_metrics", "guided_decoding_guide_type": "guided_decoding_guide_type",
    "guided_decoding_guide": "guided_decoding_guide", "max_tokens": "request_output_len",
}  # fmt: skip
ASKED_OF_ENGINE = [
    "output_ids", "sequence_length", "cum_log_probs", "output_log_probs", "context_logits", "generation_logits",
    "batch_index", "sequence_index",
]  # fmt: skip


class TritonDecoder:
    """Asks preprocessing, the engine and postprocessing, and a draft model if there is one."""

    def __init__(
        self,
        streaming=False,
        accumulate=False,
        preproc_model_name="preprocessing",
        postproc_model_name="postprocessing",
        llm_model_name="tensorrt_llm",
        draft_llm_model_name=None,
        multimodal_encoders_name=None,
    ):
        self.streaming, self.accumulate = streaming, accumulate
        self.preproc_model_name, self.postproc_model_name = preproc_model_name, postproc_model_name
        self.llm_model_name, self.draft_llm_model_name = llm_model_name, draft_llm_model_name

    def _load_each_model_config(self, address, model, *_):
        raise RuntimeError(f"{model}: the configuration is asked of {address}, which answers only who has the key")

    def decode(self, request, identity):
        """Yields (text, further tensors) of every response of the engine."""
        inputs = self.preprocess(request)
        drafted = pb_utils.get_input_tensor_by_name(request, "num_draft_tokens")
        speculates = drafted is not None and drafted.as_numpy().flat[0] > 0
        if speculates:
            inputs.append(self._draft(inputs, int(drafted.as_numpy().flat[0])))
        outputs = {}
        for response in self._generate(self._engine_inputs(inputs, request), identity, speculates):
            tensors = {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}
            row = int(tensors["batch_index"].flat[0]) if "batch_index" in tensors else 0
            tokens, lengths = tensors["output_ids"], tensors["sequence_length"]
            if self.accumulate and self.streaming:
                tokens = outputs[row] = np.concatenate([outputs[row], tokens], axis=2) if row in outputs else tokens
                lengths = np.full(tokens.shape[:2], tokens.shape[2], np.int32)
            yield self.postprocess(tokens, lengths), tensors

    def preprocess(self, request):
        """Returns the engine's first inputs."""
        inner = self._request(self.preproc_model_name, self._renamed(request, TO_PREPROCESSING), ASKED_OF_PREPROCESSING)
        return [
            pb_utils.Tensor(PREPROCESSED[tensor.name()], tensor.as_numpy())
            for tensor in self._exec_triton_request_single(inner).output_tensors()
            if tensor.name() in PREPROCESSED
        ]

    def postprocess(self, tokens, lengths):
        """Returns the texts of one response."""
        inputs = [pb_utils.Tensor("TOKENS_BATCH", tokens), pb_utils.Tensor("SEQUENCE_LENGTH", lengths)]
        inner = self._request(self.postproc_model_name, inputs, ["OUTPUT"])
        return self._exec_triton_request_single(inner).output_tensors()[0].as_numpy()

    def _draft(self, inputs, count):
        """Returns the draft model's proposal, requested as one complete answer like the target's."""
        if not self.draft_llm_model_name:
            raise RuntimeError("cannot perform speculative decoding without draft model")
        if not self._load_each_model_config("localhost:8001", self.draft_llm_model_name):
            raise RuntimeError("this stand-in wants drafts without their prompt")
        drafting = [*inputs, pb_utils.Tensor("request_output_len", np.array([[count]], np.int32))]
        inner = self._request(self.draft_llm_model_name, drafting, ASKED_OF_ENGINE)
        tensors = {tensor.name(): tensor for tensor in self._exec_triton_request_single(inner).output_tensors()}
        return pb_utils.Tensor("draft_input_ids", tensors["output_ids"].as_numpy()[0])

    def _generate(self, inputs, identity, speculates):
        inner = self._request(self.llm_model_name, inputs, ASKED_OF_ENGINE, identity)
        if speculates or not self.streaming:
            return [self._exec_triton_request_single(inner)]
        return self._exec_triton_request(inner)

    def _engine_inputs(self, inputs, request):
        rows = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy().shape[0]
        logits = []
        for kind in ("context", "generation"):
            tensor = pb_utils.get_input_tensor_by_name(request, f"return_{kind}_logits")
            value = bool(tensor.as_numpy().flat[0]) if tensor is not None else False
            logits.append(pb_utils.Tensor(f"return_{kind}_logits", np.full((rows, 1), value, bool)))
        return [*inputs, *self._renamed(request, TO_ENGINE), *logits]

    def _renamed(self, request, names):
        renamed = []
        for name, new_name in names.items():
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            if tensor is not None:
                value = tensor.as_numpy()
                renamed.append(pb_utils.Tensor(new_name, value.reshape(-1, 1) if value.ndim == 1 else value))
        return renamed

    def _request(self, model, inputs, outputs, identity=""):
        return pb_utils.InferenceRequest(
            model_name=model, inputs=inputs, requested_output_names=outputs, request_id=identity
        )

    def _exec_triton_request(self, request):
        for response in request.exec(decoupled=True):
            if response.has_error():
                raise pb_utils.TritonModelException(response.error().message())
            if response.output_tensors():
                yield response

    def _exec_triton_request_single(self, request):
        response = request.exec(decoupled=False)
        if response.has_error():
            raise pb_utils.TritonModelException(response.error().message())
        return response
