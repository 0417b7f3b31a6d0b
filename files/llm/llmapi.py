"""The LLM slot: the image's own `llmapi` model, with this release's newer Python packages put before the image's.

Triton hands every request over at once and the image's model takes them all, so no queue of Triton's ever fills. Here
`max_running` and `max_queue_size` of config.pbtxt are the most that may be unanswered; what comes beyond is refused as
Triton refuses for the encoders: UNAVAILABLE.

Triton also counts a request of such a model as answered once it is taken over, whatever becomes of it. So what is
really sent is counted here, as the metric `enginehouse_llm_answers_total`; the watchdog tells a hang by it.

The model code must be of the same TensorRT-LLM version as the wheel, so it is taken from the image, not shipped here.
`python/` of the release holds what repairs the image (see roles/repairs.py). PYTHONPATH names it too, for the
worker processes; the Python backend's own interpreter may ignore that (seen on Triton 2.51), hence the lines below.
"""

import importlib.util
import itertools
import json
import os
import sys
import threading
import time

import triton_python_backend_utils as pb_utils

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


class Place:
    """One request's place among the unanswered: free with its last response, or when nobody holds the request.

    The image's model sends a request that was stopped by another no last response (1.0 to 1.2.1); it only drops it.
    """

    _numbers = itertools.count()

    def __init__(self, taken):
        self._taken, self._number = taken, next(self._numbers)
        taken.add(self._number)

    def leave(self):
        """Free, from any thread and more than once; a set needs no lock for that, which `__del__` could not take."""
        self._taken.discard(self._number)

    __del__ = leave


class Answers:
    """How many answers, and parts of streamed ones, were sent; errors and refusals are none."""

    def __init__(self, model):
        self._unsaid, self._due, self._lock = 0, 0.0, threading.Lock()
        self._family = self._metric = None
        if hasattr(pb_utils, "MetricFamily"):
            self._family = pb_utils.MetricFamily(  # kept: a metric dies with its family
                name="enginehouse_llm_answers_total",
                description="Answers, and parts of streamed answers, sent",
                kind=pb_utils.MetricFamily.COUNTER,
            )
            self._metric = self._family.Metric(labels={"model": model})

    def add(self, is_last):
        """One more. Each update crosses to the server, so parts are told once a second, and with the last one."""
        with self._lock:
            self._unsaid += 1
            now = time.monotonic()
            if self._metric is None or (now < self._due and not is_last):
                return
            count, self._unsaid, self._due = self._unsaid, 0, now + 1
        try:
            self._metric.increment(count)
        except Exception as trouble:  # no reason to keep an answer from a client
            pb_utils.Logger.log_error(f"answers are not counted: {trouble}")


class Sender:
    """A request's response sender; the place is free before the last response is on its way, for who waits for it."""

    def __init__(self, sender, place, answers):
        self._sender, self._place, self._answers = sender, place, answers

    def send(self, response=None, flags=0):
        """As Triton's."""
        is_last = bool(flags & pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        if is_last:
            self._place.leave()
        is_answer = response is not None and not response.has_error()
        self._sender.send(response, flags)
        if is_answer:  # and on its way: one that cannot be sent is no sign of life
            self._answers.add(is_last)

    def __getattr__(self, name):
        return getattr(self._sender, name)


class Admitted:
    """A request with its place, whose answers are counted."""

    def __init__(self, request, place, answers):
        self._request, self._place, self._answers = request, place, answers

    def get_response_sender(self):
        """Triton's own, watched for answers and the last response."""
        return Sender(self._request.get_response_sender(), self._place, self._answers)

    def __getattr__(self, name):
        return getattr(self._request, name)


class TritonPythonModel(_module.TritonPythonModel):
    """The image's model behind a bound."""

    def initialize(self, args):
        """The bound is read before the minutes of loading begin."""
        parameters = json.loads(args["model_config"])["parameters"]
        self._running, self._waiting = (
            int(parameters[key]["string_value"]) for key in ("max_running", "max_queue_size")
        )
        self._taken, self._answers = set(), Answers(args["model_name"])
        super().initialize(args)

    def execute(self, requests):
        """Triton calls this from one thread, so nobody enters between the look and the entering."""
        admitted = []
        for request in requests:
            if _is_stop(request):
                admitted.append(request)  # it waits for nothing, makes room, and is no sign that the engine lives
            elif len(self._taken) < self._running + self._waiting:
                admitted.append(Admitted(request, Place(self._taken), self._answers))
            else:
                self._refuse(request)
        return super().execute(admitted) if admitted else None

    def _refuse(self, request):
        message = (
            f"Exceeds maximum queue size: {self._running} requests run and {self._waiting} wait at most, "
            f"{len(self._taken)} are unanswered; send it again later"
        )
        error = pb_utils.TritonError(message, pb_utils.TritonError.UNAVAILABLE)
        response = pb_utils.InferenceResponse(output_tensors=[], error=error)
        try:
            request.get_response_sender().send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        except Exception as trouble:  # a client that is gone must not fail the requests beside its own
            pb_utils.Logger.log_error(f"a refusal could not be sent: {trouble}")


def _is_stop(request):
    """Whether it asks for another one, named by its id, to be stopped."""
    tensor = pb_utils.get_input_tensor_by_name(request, "stop")
    return tensor is not None and bool(tensor.as_numpy().any())
