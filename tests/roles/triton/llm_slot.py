"""The LLM slot in this process, with a fake Triton and the engine of llm_image.py."""

from __future__ import annotations

import importlib.util
import queue
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.encoders import fake_triton
from tests.roles.triton.llm_image import MODEL, PACKAGE

SLOT = Path(__file__).resolve().parents[3] / "files" / "llm" / "llmapi.py"
PATIENCE_SECONDS = 300
TYPES = {str: object, bool: bool, int: np.int32, float: np.float32}


class Sender:
    """Records the responses of one request."""

    def __init__(self) -> None:
        self.queue: queue.Queue[tuple[Any, int]] = queue.Queue()

    def send(self, response: Any = None, flags: int = 0) -> None:
        self.queue.put((response, flags))

    def events(self) -> list[Any]:
        """Every response up to the last one."""
        responses = []
        while True:
            response, flags = self.queue.get(timeout=PATIENCE_SECONDS)
            responses += [response] if response is not None else []
            if flags:
                return responses


class Request(fake_triton.Request):
    """A request with these inputs; `cancel` closes its client's stream."""

    def __init__(self, **inputs: Any) -> None:
        super().__init__({name: tensor(value) for name, value in inputs.items()})
        self.sender, self.left = Sender(), False
        self.is_cancelled = lambda: self.left

    def get_response_sender(self) -> Sender:
        return self.sender

    def cancel(self) -> None:
        """Closes the client's stream."""
        self.left = True


def tensor(value: Any) -> np.ndarray:
    """A value, or a list of values, as an array in Triton's form."""
    values = value if isinstance(value, list) else [value]
    encoded = [member.encode() if isinstance(member, str) else member for member in values]
    return np.array(encoded, dtype=TYPES[type(values[0])] if values else np.int32)


def lay_image(folder: Path, model: str = MODEL) -> Path:
    """Writes the image's model and TensorRT-LLM's package to `folder`."""
    (folder / "tensorrt_llm").mkdir(parents=True)
    (folder / "model.py").write_text(model)
    for name, text in PACKAGE.items():
        (folder / "tensorrt_llm" / name).write_text(text)
    return folder


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The image's model in the slot's path; held prompts are answered once the file GO exists."""
    folder = lay_image(tmp_path / "image")
    monkeypatch.setenv("ENGINEHOUSE_LLMAPI", str(folder))
    monkeypatch.setenv("LLM_IMAGE_GO", str(folder / "GO"))
    monkeypatch.setenv("LLM_CONFIG_PATH", "")
    return folder


def forget(*packages: str) -> None:
    """Drops these packages from `sys.modules`, so that they are imported again."""
    for name in [name for name in sys.modules if name.split(".")[0] in packages]:
        del sys.modules[name]


@pytest.fixture
def slot(image: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The slot's module, in a process with a fake Triton."""
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", fake_triton)
    monkeypatch.setattr(sys, "path", [*sys.path])
    forget("llm", "tensorrt_llm")
    spec = importlib.util.spec_from_file_location("llm_slot", SLOT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    forget("llm", "tensorrt_llm", "llmapi_of_the_image")


def load(slot: ModuleType, decoupled: bool = True, **parameters: str) -> Any:
    """A loaded model: two requests run and one waits, unless `parameters` differ."""
    settings = {"max_running": "2", "max_queue_size": "1", "cancellation_check_period_ms": "10", **parameters}
    arguments = fake_triton.arguments("llm", settings)
    configuration = arguments["model_config"].replace("{", '{"model_transaction_policy": {"decoupled": X}, ', 1)
    arguments["model_config"] = configuration.replace("X", "true" if decoupled else "false")
    loaded = slot.TritonPythonModel()
    loaded.initialize(arguments)
    return loaded


@pytest.fixture
def model(slot: ModuleType, image: Path) -> Iterator[Any]:
    """A loaded model that streams; held prompts are released at the end."""
    loaded = load(slot)
    yield loaded
    (image / "GO").touch()
    loaded.finalize()


def senders_of(model: Any, *words: str, **inputs: Any) -> list[Sender]:
    """The senders of one batch of requests, with a prompt each."""
    requests = [Request(text_input=word, **inputs) for word in words]
    model.execute(requests)
    return [request.sender for request in requests]


def ask(model: Any, **inputs: Any) -> list[Any]:
    """The events of one request."""
    request = Request(**inputs)
    model.execute([request])
    return request.sender.events()


def texts(events: list[Any]) -> list[str]:
    """The text of each event."""
    return [event["text_output"][0].decode() for event in events]


def refusal(events: list[Any]) -> tuple[str, int]:
    """Message and code of the one error."""
    (event,) = events
    return str(event.error), event.error.code
