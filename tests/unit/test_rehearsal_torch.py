"""Sources of torch: the configured pip, TORCH_INDEX, the default build; with the real pip on indexes made here."""

from __future__ import annotations

import os
import socket
import sys
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from rehearsal import torch_wheel
from rehearsal.places import RehearsalRefused

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TAG = "cp" + PYTHON.replace(".", "")
PLATFORM = "manylinux_2_28_x86_64"


def wheel(directory: Path, name: str, version: str, tag: str = f"{TAG}-{TAG}-{PLATFORM}", *needs: str) -> Path:
    """A wheel without content."""
    directory.mkdir(parents=True, exist_ok=True)
    file, about = directory / f"{name}-{version}-{tag}.whl", f"{name}-{version}.dist-info"
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {requirement}" for requirement in needs),
    ]
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{about}/METADATA", "\n".join(lines) + "\n")
        archive.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")
        archive.writestr(f"{about}/RECORD", "")
    return file


def cpu(directory: Path) -> Path:
    """torch for CPUs."""
    return wheel(directory, "torch", f"{torch_wheel.VERSION}+cpu")


def default(directory: Path, python: str = PYTHON) -> Path:
    """torch as in the public index, and a library that it is linked with."""
    wheel(directory, "nvidia_nccl_cu13", "2.29.7", "py3-none-manylinux_2_18_x86_64")
    tag = "cp" + python.replace(".", "")
    return wheel(directory, "torch", torch_wheel.VERSION, f"{tag}-{tag}-{PLATFORM}", "nvidia-nccl-cu13 ==2.29.7")


@pytest.fixture(autouse=True)
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of wheels in pip's configuration, without an index."""
    directory = tmp_path / "configured"
    directory.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    (tmp_path / "pip.conf").write_text(f"[global]\nfind-links = {directory}\n[download]\nno-index = true\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("ENGINEHOUSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TORCH_INDEX", raising=False)
    return directory


@pytest.fixture
def silent() -> Iterator[str]:
    """An index that accepts connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/whl/cpu"


def names(python: str = PYTHON) -> list[str]:
    """Names of the fetched files, without their tags."""
    return ["-".join(path.name.split("-")[:2]) for path in torch_wheel.wheels(python)]


def test_the_cpu_build_of_the_configured_pip_is_taken_first(
    configured: Path, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CPU build precedes a default build, and needs no TORCH_INDEX."""
    cpu(configured)
    default(configured)
    monkeypatch.setenv("TORCH_INDEX", silent)
    assert names() == ["torch-2.13.0+cpu"]


@pytest.mark.parametrize("spelt", ["{}", "file://{}"])
def test_torch_index_may_be_a_directory_of_wheels(
    configured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelt: str
) -> None:
    """TORCH_INDEX is a path or a URL, and precedes the default build."""
    default(configured)
    cpu(tmp_path / "my wheels")
    monkeypatch.setenv("TORCH_INDEX", spelt.format(tmp_path / "my wheels"))
    assert names() == ["torch-2.13.0+cpu"]


def test_torch_index_may_be_a_package_index(configured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index has PyTorch's form: a page per package, over HTTP."""

    class Index(SimpleHTTPRequestHandler):
        def __init__(self, *words: object) -> None:
            super().__init__(*words, directory=str(tmp_path / "index"))

        def log_message(self, *_: object) -> None:
            """Writes no log line."""

    default(configured)
    cpu(tmp_path / "index/torch")
    (tmp_path / "pip.conf").write_text(f"[global]\nfind-links = {configured}\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("TORCH_INDEX", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/nothing")
        assert names() == ["torch-2.13.0+cpu"]
        server.shutdown()


def test_an_index_that_does_not_answer_is_left_in_time_for_the_default_build(
    configured: Path, silent: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The index is asked once; the download's size, and a way to avoid the download, are printed first."""
    default(configured)
    monkeypatch.setenv("TORCH_INDEX", silent)
    monkeypatch.setattr(torch_wheel, "INDEX_SECONDS", 3)
    (Path(os.environ["PIP_CONFIG_FILE"])).write_text(f"[global]\nfind-links = {configured}\n")
    monkeypatch.setenv("PIP_INDEX_URL", "file:///nowhere")
    assert names() == ["torch-2.13.0", "nvidia_nccl_cu13-2.29.7"]
    errors = capfd.readouterr().err
    assert f"  {silent} gave none: no answer within 3 s\n" in errors
    assert "2.7 GB to download" in errors and "make … TORCH_INDEX=" in errors


def test_torch_is_downloaded_once(configured: Path) -> None:
    """The environment and the image use the same file, even if the index has disappeared."""
    source = cpu(configured)
    first = torch_wheel.wheels(PYTHON)
    source.unlink()
    assert torch_wheel.wheels(PYTHON) == first and first[0].parent == torch_wheel.folder()


def test_another_python_gets_a_wheel_of_its_own_and_the_same_libraries(configured: Path) -> None:
    """An environment of Python 3.13 and the image's 3.11 share NVIDIA's libraries."""
    for python in ("3.13", "3.11"):
        default(configured, python)
        assert names(python) == ["torch-2.13.0", "nvidia_nccl_cu13-2.29.7"]
    assert sorted(path.name[:19] for path in torch_wheel.folder().glob("torch-*")) == [
        "torch-2.13.0-cp311-",
        "torch-2.13.0-cp313-",
    ]


def test_the_default_build_goes_as_soon_as_a_cpu_build_is_offered(
    configured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the message advises: name an index, and run again."""
    default(configured)
    assert names() == ["torch-2.13.0", "nvidia_nccl_cu13-2.29.7"]
    cpu(tmp_path / "wheels")
    monkeypatch.setenv("TORCH_INDEX", str(tmp_path / "wheels"))
    assert names() == ["torch-2.13.0+cpu"]


def test_a_machine_without_any_torch_gets_pips_message() -> None:
    """The refusal leaves no partial directory."""
    with pytest.raises(RehearsalRefused) as refused:
        torch_wheel.wheels("3.11")
    assert str(refused.value) == (
        "there is no torch==2.13.0 for Python 3.11, neither as a CPU build nor as the default build\n"
        "  seen    ERROR: No matching distribution found for torch==2.13.0\n"
        "  wanted  a package index, or a directory of wheels, that has it\n"
        "  try     make … TORCH_INDEX=<address of a package index, or a directory of wheels>\n"
        "  state   torch is not installed, and no image was made"
    )
    assert list(torch_wheel.folder().iterdir()) == []


def test_the_makefile_names_pytorchs_index_once() -> None:
    """Other indexes are set by TORCH_INDEX."""
    root = Path(__file__).parents[2]
    files = [root / "Makefile", *(root / "rehearsal").rglob("*.py"), *root.glob("locks/*.lock")]
    assert [path.name for path in files if "download.pytorch.org" in path.read_text("utf-8")] == ["Makefile"]
    assert (root / "Makefile").read_text("utf-8").count("download.pytorch.org") == 1


def test_no_lock_brings_torch_from_elsewhere() -> None:
    """torch is installed only by rehearsal/torch_wheel.py."""
    locks = [path.read_text("utf-8") for path in Path(__file__).parents[2].glob("locks/*.lock")]
    assert locks and not any("\ntorch==" in text or text.startswith("torch==") for text in locks)
