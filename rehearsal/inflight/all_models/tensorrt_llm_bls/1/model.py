"""Answers text with text through the other models, like the image's `tensorrt_llm_bls` (rehearsal stand-in).

Like there, each instance handles one request at a time, and the names of two other models are fixed.
"""

import json
import uuid

import numpy as np
import triton_python_backend_utils as pb_utils
from lib.triton_decoder import TritonDecoder

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    """The model that Triton's Python backend calls."""

    def initialize(self, args):
        """Reads the names of the engines."""
        configuration = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in configuration["parameters"].items()}
        self.decoupled = pb_utils.using_decoupled_model_transaction_policy(configuration)
        self.outputs = {output["name"] for output in configuration["output"]}
        self.decoder = TritonDecoder(
            streaming=self.decoupled,
            accumulate=parameters.get("accumulate_tokens", "").lower() in ("true", "yes", "1", "t"),
            preproc_model_name="preprocessing",
            postproc_model_name="postprocessing",
            llm_model_name=parameters.get("tensorrt_llm_model_name") or "tensorrt_llm",
            draft_llm_model_name=parameters.get("tensorrt_llm_draft_model_name") or None,
        )
        pb_utils.Logger.log_info("rehearsal stand-in: tensorrt_llm_bls")

    def execute(self, requests):
        """Answers the requests in sequence: through the sender if answers stream, else with a response each."""
        responses = []
        for request in requests:
            sender = request.get_response_sender() if self.decoupled else None
            for response in self._responses(request):
                if sender:
                    sender.send(response)
                else:
                    responses.append(response)
            if sender:
                sender.send(flags=FINAL)
        return None if self.decoupled else responses

    def _responses(self, request):
        try:
            for text, outputs in self.decoder.decode(request, str(uuid.uuid4())):
                yield self._response(text, outputs)
        except Exception as trouble:  # an error ends only its own request
            yield pb_utils.InferenceResponse([], error=pb_utils.TritonError(str(trouble)))

    def _response(self, text, outputs):
        tensors = [pb_utils.Tensor("text_output", np.array(text, dtype=np.object_))]
        tensors += [pb_utils.Tensor(name, value) for name, value in outputs.items() if name in self.outputs]
        return pb_utils.InferenceResponse(tensors)
