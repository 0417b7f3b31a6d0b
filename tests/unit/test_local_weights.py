"""Local checkpoints are read by their headers: sizes, parameters and a separate revision."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.inventory.fleet import Fleet
from deploy.io.local_weights import LFS, look_around, read_local
from deploy.spec import LLM, Weights
from tests.unit.samples import AROUND, GPT_OSS, main, refusals, sources

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


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        (
            "model.safetensors",
            LFS + b".github.com/spec/v1\noid sha256:0\nsize 9\n",
            "a pointer of Git LFS",
        ),
        ("model.safetensors", b"", "0 bytes without a header"),
        ("model.safetensors", b"\0" * 5000, "5,000 bytes without a header"),
        ("model-00002-of-00003.safetensors", None, "no model-00001-of-00003.safetensors beside 1 files"),
        ("config.json", b"\xef\xbb\xbf{}", "config.json: Unexpected UTF-8 BOM"),
        ("config.json", b"[]", "config.json: no JSON object"),
    ],
)
def test_files_that_are_not_whole_are_refused_by_the_plan(
    tmp_path: Path, name: str, content: bytes | None, fault: str
) -> None:
    """A clone without Git LFS, and a download that was interrupted: both were planned, the first with 1 MiB."""
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    safetensors(tmp_path / (name if name.startswith("model") else "model.safetensors"), a=("F32", [1]))
    if content is not None:
        (tmp_path / name).write_bytes(content)
    around = replace(AROUND, local={"./mine": read_local(tmp_path)})
    (problem,) = refusals(around=around, **main(LLM("./mine", name="mine")))
    assert (problem.kind, fault in problem.facts["seen"]) == ("files-not-whole", True)


def test_a_file_that_is_shorter_than_its_header_says_is_named_with_both_lengths(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    safetensors(file, a=("F32", [4]))
    (tmp_path / "config.json").write_text("{}")
    assert read_local(tmp_path).fault == ""
    header = json.dumps({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 15)
    size = 8 + len(header)
    assert read_local(tmp_path).fault.startswith(f"model.safetensors: {size + 15} of {size + 16} bytes")


def test_only_directories_the_fleet_names_are_read(tmp_path: Path) -> None:
    """Paths are relative to the command's directory; a directory without safetensors is left out."""
    (tmp_path / "weights").mkdir()
    (tmp_path / "empty").mkdir()
    safetensors(tmp_path / "weights" / "model.safetensors", a=("F32", [1]))
    models = [replace(GPT_OSS, name=name, weights=Weights.local(name)) for name in ("weights", "empty", "nowhere")]
    assert list(look_around(Fleet.of(sources(**main(*models))), tmp_path).local) == ["weights"]
