"""Local checkpoints are read by their headers: sizes, parameters and a separate revision."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

from deploy.inventory.fleet import Fleet
from deploy.io.local_weights import look_around, read_local
from deploy.spec import Weights
from tests.unit.given import GPT_OSS, main, sources

NO_DATA = [0, 0]


def safetensors(file: Path, **tensors: tuple[str, list[int]]) -> None:
    """Writes a file with this header and as little data as possible."""
    header = {
        name: {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]} for name, (dtype, shape) in tensors.items()
    }
    text = json.dumps({"__metadata__": {"format": "pt"}} | header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text)


def test_tensors_add_up_over_all_files(tmp_path: Path) -> None:
    """1,024 x 1,024 in 16 bit and 1,000 bytes of packed blocks."""
    safetensors(tmp_path / "model-00001-of-00002.safetensors", a=("BF16", [1024, 1024]))
    safetensors(tmp_path / "model-00002-of-00002.safetensors", b=("U8", [10, 100]))
    local = read_local(tmp_path)
    assert (local.stored_bytes, local.parameters) == (2 * 1024 * 1024 + 1000, 1024 * 1024 + 1000)


def test_a_second_copy_of_the_weights_is_not_counted(tmp_path: Path) -> None:
    """gpt-oss has a second copy in original/, Mistral beside the shards: no loader reads both copies."""
    safetensors(tmp_path / "model.safetensors", a=("BF16", [1024, 1024]))
    (tmp_path / "original").mkdir()
    for copy in ("original/model.safetensors", "consolidated.safetensors"):
        safetensors(tmp_path / copy, a=("BF16", [1024, 1024]))
    assert read_local(tmp_path).parameters == 1024 * 1024


def test_another_shape_is_another_revision(tmp_path: Path) -> None:
    """The length of the file is the same."""
    revisions = []
    for shape in ([16, 32], [32, 16], [16, 32]):
        safetensors(tmp_path / "model.safetensors", a=("F32", shape))
        revisions.append(read_local(tmp_path).revision)
    assert (revisions[0] == revisions[2], revisions[0] == revisions[1]) == (True, False)


def test_another_tokenizer_is_another_revision(tmp_path: Path) -> None:
    """A changed tokenizer changes every answer."""
    safetensors(tmp_path / "model.safetensors", a=("F32", [1]))
    revisions = []
    for text in ("{}", "[]"):
        (tmp_path / "tokenizer.json").write_text(text)
        revisions.append(read_local(tmp_path).revision)
    assert revisions[0] != revisions[1]


def test_a_broken_header_counts_nothing(tmp_path: Path) -> None:
    """The plan does not repair files; loading will report the fault."""
    (tmp_path / "model.safetensors").write_bytes(b"\x10")
    assert read_local(tmp_path).parameters == 0


def test_only_directories_the_fleet_names_are_read(tmp_path: Path) -> None:
    """Paths are relative to the command's directory; a directory without safetensors is left out."""
    (tmp_path / "weights").mkdir()
    (tmp_path / "empty").mkdir()
    safetensors(tmp_path / "weights" / "model.safetensors", a=("F32", [1]))
    models = [replace(GPT_OSS, name=name, weights=Weights.local(name)) for name in ("weights", "empty", "nowhere")]
    assert list(look_around(Fleet.of(sources(**main(*models))), tmp_path).local) == ["weights"]
