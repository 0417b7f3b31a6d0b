"""The slot over each served release's form of `generate_async`: the same events, whatever the parameters' order.

Parameters as read in NVIDIA/TensorRT-LLM, tensorrt_llm/llmapi/llm.py: at 00966934 for 1.0, `cache_salt` from pull
request 7106 for 1.1, the form of main at the end, where a bool in the third place is refused by a type.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.catalog.releases import OFFERED, RELEASES
from tests.encoders.fake_triton import TritonError
from tests.roles.triton.llm_image import MODEL
from tests.roles.triton.llm_slot import ask, image, load, refusal, slot, texts

__all__ = ["image", "slot"]  # fixtures
OLD = "lora_request=None, prompt_adapter_request=None, streaming=False, queries=None, kv_cache_retention_config=None"
FORMS = {
    "1.0.0": OLD,
    "1.1.0": OLD.replace("queries=None, ", "") + ", cache_salt=None",
    "1.2.1": OLD.replace("queries=None", "trace_headers=None") + ", cache_salt=None",
    "main": OLD.replace("prompt_adapter_request=None, ", "") + ", cache_salt=None, priority=0.5",
}
WRITTEN = "lora_request=None, prompt_adapter_request=None, streaming=False\n"
ASKED = {"text_input": "hi", "sampling_param_exclude_input_from_output": True, "sampling_param_max_tokens": 4}


def test_every_release_that_serves_the_pytorch_path_has_its_form_here() -> None:
    served = {RELEASES[name].trtllm for name in OFFERED if RELEASES[name].trtllm >= "1.0"}
    assert served == set(FORMS) - {"main"}


@pytest.fixture(params=FORMS)
def release(request: pytest.FixtureRequest, image: Path) -> str:
    """Installs this release's form in the image."""
    assert WRITTEN in MODEL
    changed = MODEL.replace(WRITTEN, f"{FORMS[request.param]}\n")
    if request.param == "1.0.0":
        changed = changed.replace("self.finished, self.is_aborted, self.cached_tokens = False, False, 3",
                                  "self.finished, self.is_aborted = False, False")  # fmt: skip
    (image / "model.py").write_text(changed)
    return str(request.param)


def test_a_stream_has_an_event_a_token(release: str, request: pytest.FixtureRequest) -> None:
    model = load(request.getfixturevalue("slot"))
    assert texts(ask(model, **ASKED, streaming=True)) == [" w0", " w1", " w2", " w3"]
    model.finalize()


def test_a_decorator_that_hides_the_names_hides_nothing_else(image: Path, request: pytest.FixtureRequest) -> None:
    hidden = MODEL.replace("    def generate_async(", "    def generate_async(self, *given, **named):\n"
                           "        return self.inner(*given, **named)\n\n    def inner(", 1)  # fmt: skip
    assert hidden != MODEL
    (image / "model.py").write_text(hidden)
    model = load(request.getfixturevalue("slot"))
    assert len(ask(model, **ASKED, streaming=True)) == 4
    model.finalize()


def test_cached_tokens_are_reported_or_marked_unknown(release: str, request: pytest.FixtureRequest) -> None:
    model = load(request.getfixturevalue("slot"))
    (event,) = ask(model, **ASKED, return_counts=True)
    assert event["num_cached_tokens"].tolist() == ([-1] if release == "1.0.0" else [3])
    model.finalize()


def test_a_salt_is_refused_where_there_is_none(release: str, request: pytest.FixtureRequest) -> None:
    model = load(request.getfixturevalue("slot"))
    events = ask(model, **ASKED, cache_salt="tenant")
    if release == "1.0.0":
        words = "TensorRT-LLM's generate_async of this release has no cache_salt"
        assert refusal(events) == (words, TritonError.UNSUPPORTED)
    else:
        assert texts(events) == [" w0 w1 w2 w3"]
    model.finalize()
