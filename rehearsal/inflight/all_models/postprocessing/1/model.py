"""Converts token ids to text like the image's `postprocessing` model (rehearsal stand-in, without transformers)."""

import json
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer


class TritonPythonModel:
    """The model that Triton's Python backend calls."""

    def initialize(self, args):
        """Loads the tokenizer."""
        configuration = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in configuration["parameters"].items()}
        self.tokenizer = Tokenizer.from_file(str(Path(parameters["tokenizer_dir"]) / "tokenizer.json"))
        skipped = parameters.get("skip_special_tokens", "true").lower()
        self.without_special_tokens = skipped in ("true", "1", "t", "y", "yes")
        pb_utils.Logger.log_info("rehearsal stand-in: postprocessing")

    def execute(self, requests):
        """Returns a response per request: a text per beam of each row."""
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        tokens = pb_utils.get_input_tensor_by_name(request, "TOKENS_BATCH").as_numpy()
        lengths = pb_utils.get_input_tensor_by_name(request, "SEQUENCE_LENGTH").as_numpy()
        texts = [
            self.tokenizer.decode(list(map(int, ids[:length])), skip_special_tokens=self.without_special_tokens)
            for row, row_lengths in zip(tokens, lengths, strict=True)
            for ids, length in zip(row, row_lengths, strict=True)
        ]
        output = np.array([text.encode() for text in texts], dtype=np.object_)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", output)])
