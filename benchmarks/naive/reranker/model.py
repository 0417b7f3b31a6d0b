"""A reranker from guides: transformers, fp16, each request alone, padded. This project does not ship it."""

import json

import numpy as np
import torch
import triton_python_backend_utils as pb_utils
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerFast


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
        self.model = AutoModelForSequenceClassification.from_pretrained(path, dtype=dtype).to(self.device)
        self.model.eval()

    def execute(self, requests: list) -> list:
        """Returns a response for each request, in order."""
        responses = []
        for request in requests:
            query = pb_utils.get_input_tensor_by_name(request, "query").as_numpy()[0][0].decode()
            passages = [p.decode() for p in pb_utils.get_input_tensor_by_name(request, "passages").as_numpy()[0]]
            pairs = [[query, passage] for passage in passages]
            encoded = self.tokenizer(pairs, padding=True, truncation=True, max_length=512, return_tensors="pt")
            inputs = {name: encoded[name].to(self.device) for name in ("input_ids", "attention_mask")}
            with torch.no_grad():
                scores = self.model(**inputs).logits.squeeze(-1).float().cpu().numpy()
            tensor = pb_utils.Tensor("scores", scores.astype(np.float32))
            responses.append(pb_utils.InferenceResponse(output_tensors=[tensor]))
        return responses
