"""Converts text to token ids like the image's `preprocessing` model (rehearsal stand-in, without transformers)."""

import json
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer


class TritonPythonModel:
    """The model that Triton's Python backend calls."""

    def initialize(self, args):
        """Loads the tokenizer; refuses a configuration that lacks an output of the real model."""
        configuration = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in configuration["parameters"].items()}
        for name in ("INPUT_ID", "REQUEST_INPUT_LEN", "BAD_WORDS_IDS", "STOP_WORDS_IDS", "OUT_END_ID", "OUT_PAD_ID",
                     "PIXEL_VALUES", "IMAGE_SIZES"):  # fmt: skip
            if pb_utils.get_output_config_by_name(configuration, name) is None:
                raise pb_utils.TritonModelException(f"the output {name} is not configured")
        folder = Path(parameters["tokenizer_dir"])
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.with_special_tokens = parameters.get("add_special_tokens", "true").lower() in (
            "true",
            "1",
            "t",
            "y",
            "yes",
        )
        self.end = end_token(folder, self.tokenizer)
        pb_utils.Logger.log_info("rehearsal stand-in: preprocessing")

    def execute(self, requests):
        """Returns a response per request."""
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        texts = [row[0].decode() for row in values(request, "QUERY")]
        rows = [self.tokenizer.encode(text, add_special_tokens=self.with_special_tokens).ids for text in texts]
        longest = max(len(row) for row in rows)
        ends, pads = self._ids(request, "END_ID", len(rows)), self._ids(request, "PAD_ID", len(rows))
        padded = [row + [self.end] * (longest - len(row)) for row in rows]
        outputs = {
            "INPUT_ID": np.array(padded, np.int32),
            "REQUEST_INPUT_LEN": np.array([[len(row)] for row in rows], np.int32),
            "DECODER_INPUT_ID": pads,
            "REQUEST_DECODER_INPUT_LEN": np.ones((len(rows), 1), np.int32),
            "BAD_WORDS_IDS": self._words(request, "BAD_WORDS_DICT", len(rows)),
            "STOP_WORDS_IDS": self._words(request, "STOP_WORDS_DICT", len(rows)),
            "EMBEDDING_BIAS": np.empty((len(rows), 0), np.float32),
            "REQUEST_OUTPUT_LEN": values(request, "REQUEST_OUTPUT_LEN"),
            "OUT_END_ID": ends,
            "OUT_PAD_ID": pads,
        }
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in outputs.items()])

    def _ids(self, request, name, rows):
        inputs = values(request, name)
        return np.full((rows, 1), self.end, np.int32) if inputs is None else inputs

    def _words(self, request, name, rows):
        """Returns (tokens of all words, ends of the words) per row, padded with 0 and -1."""
        inputs = values(request, name)
        if inputs is None:
            return np.empty((rows, 2, 0), np.int32)
        lists = [
            [ids for word in row if (ids := self.tokenizer.encode(word.decode(), add_special_tokens=False).ids)]
            for row in inputs
        ]
        width = max(1, *(sum(len(ids) for ids in row) for row in lists))
        packed = np.zeros((rows, 2, width), np.int32)
        packed[:, 1] = -1
        for place, row in zip(packed, lists, strict=True):
            flat = [token for ids in row for token in ids]
            place[0, : len(flat)] = flat
            place[1, : len(row)] = np.cumsum([len(ids) for ids in row])
        return packed


def values(request, name):
    """Returns an input's array, or None."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy()


def end_token(folder, tokenizer):
    """Returns the id that ends an answer, from the checkpoint's files."""
    for name in ("generation_config.json", "config.json"):
        if (folder / name).is_file():
            token = json.loads((folder / name).read_text()).get("eos_token_id")
            if token is not None:
                return token if isinstance(token, int) else token[0]
    return tokenizer.get_vocab_size() - 1
