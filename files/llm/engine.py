"""The Python models around an engine: the image's own code, with the model names of this release.

Serves as preprocessing, postprocessing or tensorrt_llm_bls; the name of the model's directory decides. The code must be
of the same TensorRT-LLM version as the engine, so it is taken from the image, not shipped here.

- The image's tensorrt_llm_bls always calls models named `preprocessing` and `postprocessing`;
  several engines in one server need different names.
- Before it speculates, it reads two configurations from the server's gRPC endpoint, which requires a key.
  The needed value, `exclude_input_in_output`, is true in all our releases.
- It calls draft and target for whole answers, which Triton refuses if the engine can stream.
- Under mpirun the Python backend's processes inherit MPI's variables, and importing torch hangs (tensorrtllm_backend
  issue 553). They are not ranks, so these variables are removed.
"""

import importlib
import importlib.util
import os
import sys
from pathlib import Path

ROLES = ("preprocessing", "postprocessing", "tensorrt_llm_bls")
IMAGE_MODELS = Path(os.environ.get("ENGINEHOUSE_INFLIGHT", "/app/all_models/inflight_batcher_llm"))
MODEL = Path(os.path.abspath(__file__)).parents[1].name


def forget_mpi() -> None:
    for name in [name for name in os.environ if name.startswith(("OMPI_", "PMIX_", "PMI_", "PRTE_"))]:
        del os.environ[name]


def rename_neighbours(public: str) -> None:
    """Makes the image's decoder call this release's models and use this release's configuration."""
    decoder = importlib.import_module("lib.triton_decoder")

    class Decoder(decoder.TritonDecoder):
        def __init__(self, **names):
            self._engines_stream = names.get("streaming", False)
            super().__init__(
                **names
                | {
                    "preproc_model_name": f"{public}_preprocessing",
                    "postproc_model_name": f"{public}_postprocessing",
                }
            )

        def _load_each_model_config(self, *_, **__):
            return True

        def _exec_triton_request_single(self, request):
            if not self._engines_stream or "output_ids" not in request.requested_output_names():
                return super()._exec_triton_request_single(request)
            # Reads all responses; otherwise Triton counts the request as unfinished and waits for it at its stop.
            whole, *_ = [response for response in self._exec_triton_request(request) if response.output_tensors()]
            return whole

    decoder.TritonDecoder = Decoder


def image_model(role: str):
    """The image's module for preprocessing, postprocessing or tensorrt_llm_bls."""
    folder = IMAGE_MODELS / role / "1"
    sys.path.insert(0, str(folder))  # tensorrt_llm_bls imports its own `lib` by this name without a package
    if role == "tensorrt_llm_bls":
        rename_neighbours(MODEL.removesuffix(f"_{role}"))
    spec = importlib.util.spec_from_file_location(f"{role}_of_the_image", folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


forget_mpi()
TritonPythonModel = image_model(next(role for role in ROLES if MODEL.endswith(f"_{role}"))).TritonPythonModel
