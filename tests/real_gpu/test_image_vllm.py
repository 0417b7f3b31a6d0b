"""The image layers that contain vLLM, built from the sent packages and from the machine's own Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rehearsal import triton_image
from rehearsal.real_gpu import image


def test_vllm_has_its_own_folder_with_the_packages_it_needs(tmp_path: Path) -> None:
    """vLLM's numpy differs from Triton's; packages of the image are not repeated; an extra brings its packages."""
    travelled, work = tmp_path / "travelled", tmp_path / "work"
    _write_distribution(travelled, "vllm", ["Transformers", "numpy", "extras-of[standard]; python_version > '3'"])
    (travelled / "vllm.py").write_text("")
    (travelled / "bin").mkdir()
    (travelled / "bin/vllm").write_text("from vllm import main")
    work.mkdir()
    machine_python = _python_with(
        tmp_path / "site",
        {
            "numpy": [],
            "transformers": [],
            "extras_of": ["wanted; extra == 'standard'", "never; extra == 'other'"],
            "wanted": [],
            "never": [],
        },
    )
    layers = image.vllm_layers(Path("/"), machine_python, travelled, str(travelled), work, ["transformers"])
    names = {}
    for layer, words in layers.items():
        packed = subprocess.run(["tar", *words], check=True, capture_output=True).stdout
        names[layer] = subprocess.run(["tar", "-t"], input=packed, check=True, capture_output=True).stdout.decode()
    assert {"opt/vllm/vllm.py", "opt/vllm/bin/vllm", "usr/local/sbin/vllm"} <= set(names["vllm"].splitlines())
    modules = {line for line in names["vllm-wanted"].splitlines() if line.endswith(".py")}
    assert modules == {f"opt/vllm/{name}.py" for name in ("numpy", "extras_of", "wanted")}
    assert triton_image.ENVIRONMENT["PATH"].index("/usr/local/sbin") < triton_image.ENVIRONMENT["PATH"].index(
        "/usr/local/bin"
    )


def _write_distribution(site: Path, name: str, required: list[str]) -> None:
    """Writes a Python package of one module, in pip's installed form."""
    about = site / f"{name}-1.0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n" + "".join(f"Requires-Dist: {r}\n" for r in required)
    )
    (site / f"{name}.py").write_text("")
    (about / "RECORD").write_text(f"{name}.py,,\n")


def _python_with(site: Path, packages: dict[str, list[str]]) -> str:
    """Returns a stand-in of Python with these packages, which only answers the query for packages."""
    for name, required in packages.items():
        _write_distribution(site, name, required)
    program = site.parent / "python-with"
    shim = f"import sysconfig; sysconfig.get_path = lambda _: {str(site)!r}; exec(sys.argv.pop(1))"
    program.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} -I -c "import sys; {shim}" "$@"\n')
    program.chmod(0o755)
    return str(program)
