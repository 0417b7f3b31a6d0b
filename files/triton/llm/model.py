"""The LLM slot: the image's own `llmapi` model, with this release's newer Python packages put before the image's.

The model code must be of the same TensorRT-LLM version as the wheel, so it is taken from the image, not shipped here.
`python/` of the release holds what repairs the image (see roles/repairs.py). PYTHONPATH names it too, for the
worker processes; the Python backend's own interpreter may ignore that (seen on Triton 2.51), hence the lines below.
"""

import importlib.util
import os
import sys

IMAGE_MODEL = os.environ.get("ENGINEHOUSE_LLMAPI", "/app/all_models/llmapi/tensorrt_llm/1")
RELEASE_PACKAGES = os.path.join(os.environ.get("ENGINEHOUSE_RELEASE", "/nonexistent"), "python")

# The image's code looks for model.yaml beside itself in some versions, in Triton's model directory in others.
os.environ["LLM_CONFIG_PATH"] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "model.yaml")

sys.path.insert(0, IMAGE_MODEL)  # its model.py imports its own helpers.py by that bare name
if os.path.isdir(RELEASE_PACKAGES):
    sys.path.insert(0, RELEASE_PACKAGES)

_spec = importlib.util.spec_from_file_location("llmapi_of_the_image", os.path.join(IMAGE_MODEL, "model.py"))
_module = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _module
_spec.loader.exec_module(_module)

TritonPythonModel = _module.TritonPythonModel
