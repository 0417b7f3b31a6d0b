"""A pytorch_model.bin becomes the same tensors in safetensors, and no instruction of its pickle is executed."""

from __future__ import annotations

import os
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from host import convert_weights
from tests.roles.model_store.test_fetch import FakeHub, Web, call, hub, web

__all__ = ["hub", "web"]

PATTERNS = ["config.json", "model.safetensors", "pytorch_model.bin", "*_Dense/pytorch_model.bin"]


def tensors() -> OrderedDict[str, torch.Tensor]:
    """Every kind of number, tensors that share a storage, a parameter, an empty tensor and a scalar."""
    generator = torch.Generator().manual_seed(1)
    table = torch.randn(7, 5, generator=generator)
    return OrderedDict(
        {
            "table": table,
            "tied": table,
            "row": table[3],
            "half": table.half(),
            "brain": table.bfloat16(),
            "double": table.double(),
            "positions": torch.arange(9)[None],
            "parameter": torch.nn.Parameter(torch.randn(4, 3, generator=generator)),
            "empty": torch.empty(0, 3),
            "scale": torch.tensor(2.5),
        }
    )


def saved(path: Path, value: Any, **settings: Any) -> Path:
    torch.save(value, path, **settings)
    return path


def test_every_tensor_is_the_same_afterwards(tmp_path: Path) -> None:
    source, target = saved(tmp_path / "pytorch_model.bin", tensors()), tmp_path / "model.safetensors"
    convert_weights.convert(source, target)
    read = load_file(target)
    assert read.keys() == tensors().keys()
    for name, tensor in tensors().items():
        assert read[name].dtype == tensor.dtype and torch.equal(read[name], tensor.detach()), name


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_the_same_file_gives_the_same_bytes(tmp_path: Path, protocol: int) -> None:
    source = saved(tmp_path / "pytorch_model.bin", tensors(), pickle_protocol=protocol)
    sums = {convert_weights.convert(source, tmp_path / name) for name in ("a", "b")}
    assert len(sums) == 1 and (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


class Evil:
    """Runs a command if it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.trace}",)


def test_code_in_the_pickle_is_named_and_not_run(tmp_path: Path) -> None:
    source = saved(tmp_path / "pytorch_model.bin", tensors() | {"x": Evil(tmp_path / "trace")})
    with pytest.raises(
        convert_weights.Unreadable, match=r"wants (posix|os)\.system to be called; only tensors are accepted"
    ):
        convert_weights.convert(source, tmp_path / "model.safetensors")
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    ("value", "settings", "message"),
    [
        ({"weights": torch.ones(3, 4).t()}, {}, "weights is stored in another order than it is read"),
        ({"epoch": 3}, {}, "more than a table of tensors, 'epoch' for example"),
        ({"inner": {"x": torch.ones(2)}}, {}, "more than a table of tensors, 'inner' for example"),
        ([torch.ones(2)], {}, "the instruction APPEND"),
        ({"x": torch.ones(2)}, {"_use_new_zipfile_serialization": False}, "older than PyTorch 1.6, or incomplete"),
    ],
)
def test_a_file_that_is_more_than_a_table_of_tensors_is_refused(
    tmp_path: Path, value: Any, settings: dict[str, Any], message: str
) -> None:
    source = saved(tmp_path / "pytorch_model.bin", value, **settings)
    with pytest.raises(convert_weights.Unreadable, match=message):
        convert_weights.convert(source, tmp_path / "model.safetensors")


@pytest.mark.parametrize("spoil", ["compressed", "encrypted", "a tuple without a beginning"])
def test_an_archive_that_torch_save_does_not_write_is_refused(tmp_path: Path, spoil: str) -> None:
    """A compressed archive of a megabyte fills a disk; the others ended in a traceback (2026-11-28)."""
    method = zipfile.ZIP_DEFLATED if spoil == "compressed" else zipfile.ZIP_STORED
    with zipfile.ZipFile(tmp_path / "bomb", "w", method) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02t." if "tuple" in spoil else b"\x80\x02}.")
    if spoil == "encrypted":
        content = bytearray((tmp_path / "bomb").read_bytes())
        content[content.find(b"PK\x01\x02") + 8] |= 1
        (tmp_path / "bomb").write_bytes(content)
    with pytest.raises(convert_weights.Unreadable, match=r"compressed or encrypted|StopIteration"):
        convert_weights.convert(tmp_path / "bomb", tmp_path / "model.safetensors")


def test_a_tensor_that_reaches_beyond_its_storage_is_refused(tmp_path: Path) -> None:
    source = saved(tmp_path / "whole", {"x": torch.ones(8)})
    with zipfile.ZipFile(source) as whole, zipfile.ZipFile(tmp_path / "short", "w") as short:
        for entry in whole.namelist():
            content = whole.read(entry)
            short.writestr(entry, content[:-4] if entry.endswith("data/0") else content)
    with pytest.raises(convert_weights.Unreadable, match="x reaches beyond the 28 bytes of its storage"):
        convert_weights.convert(tmp_path / "short", tmp_path / "model.safetensors")


def test_a_repository_of_pickles_alone_is_published_as_safetensors(web: Web, hub: FakeHub, tmp_path: Path) -> None:
    binary = saved(tmp_path / "source", tensors()).read_bytes()
    del hub.files["model.safetensors"]
    hub.files["pytorch_model.bin"] = hub.content["pytorch_model.bin"] = binary
    assert call(web, tmp_path, PATTERNS) == 0
    assert sorted(os.listdir(tmp_path / "weights/m")) == ["config.json", "manifest.sha256", "model.safetensors"]
    assert torch.equal(load_file(tmp_path / "weights/m/model.safetensors")["table"], tensors()["table"])


def test_a_pickle_beside_safetensors_is_not_fetched(web: Web, hub: FakeHub, tmp_path: Path) -> None:
    hub.files["pytorch_model.bin"] = hub.content["pytorch_model.bin"] = b"never read"
    assert call(web, tmp_path, PATTERNS) == 0
    assert [request.path for request in web.requests if request.path.endswith(".bin")] == []


def test_a_pickle_with_code_is_not_published(
    web: Web, hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del hub.files["model.safetensors"]
    binary = saved(tmp_path / "source", {"x": Evil(tmp_path / "trace")}).read_bytes()
    hub.files["pytorch_model.bin"] = hub.content["pytorch_model.bin"] = binary
    assert call(web, tmp_path, PATTERNS) == 1
    assert "pytorch_model.bin cannot be rewritten as safetensors: the file wants" in capsys.readouterr().err
    assert not (tmp_path / "trace").exists() and not (tmp_path / "weights/m").exists()


def test_a_locked_list_of_files_that_names_the_pickle_publishes_safetensors(
    web: Web, hub: FakeHub, tmp_path: Path
) -> None:
    del hub.files["model.safetensors"]
    hub.files["pytorch_model.bin"] = hub.content["pytorch_model.bin"] = saved(tmp_path / "s", tensors()).read_bytes()
    assert call(web, tmp_path, ["config.json", "pytorch_model.bin"]) == 0
    assert sorted(os.listdir(tmp_path / "weights/m")) == ["config.json", "manifest.sha256", "model.safetensors"]
