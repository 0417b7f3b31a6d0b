"""An embedder from guides: fp16, each request alone, padded, padding pooled. This project does not ship it."""

import json

import numpy as np
import torch
import triton_python_backend_utils as pb_utils
from network import NomicBert
from transformers import PreTrainedTokenizerFast


class TritonPythonModel:
    """The model that the Python backend calls."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads the model onto its device without a first run."""
        parameters = json.loads(args["model_config"])["parameters"]
        path, device = (parameters[name]["string_value"] for name in ("model_path", "device"))
        self.device = torch.device(device)
        dtype = torch.float32 if device == "cpu" else torch.float16
        self.tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=f"{path}/tokenizer.json", pad_token="<pad>", model_max_length=512
        )
        self.model = NomicBert(path, dtype, self.device)

    def execute(self, requests: list) -> list:
        """Returns a response for each request, in order."""
        responses = []
        for request in requests:
            texts = [t.decode() for t in pb_utils.get_input_tensor_by_name(request, "texts").as_numpy()[0]]
            encoded = self.tokenizer(texts, padding=True, truncation=True, max_length=512, return_tensors="pt")
            inputs = [encoded[name].to(self.device) for name in ("input_ids", "attention_mask")]
            with torch.no_grad():
                states = self.model(*inputs)
            embeddings = states.mean(dim=1).float().cpu().numpy()
            tensor = pb_utils.Tensor("embeddings", embeddings.astype(np.float32))
            responses.append(pb_utils.InferenceResponse(output_tensors=[tensor]))
        return responses
