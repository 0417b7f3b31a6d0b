"""Pinning images of LLMs beside Triton: each by its own registry, each in its own text of the inventory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from deploy.cli.pin import pin as command
from deploy.io import pin
from deploy.io.inventory import load_plan
from deploy.io.pin import write_runtimes
from deploy.io.registry import Login, split
from deploy.refusals.errors import Refusal
from deploy.spec import Gateway, Registry, Secret
from tests.unit.samples import LLAMA, RERANKER, main, plan

NEW = "sha256:" + "a" * 64

REFERENCE = "vllm/vllm-openai:v0.26.0"


@pytest.mark.parametrize("quoted", [f'"{REFERENCE}"', f"'{REFERENCE}'", f'"{REFERENCE}@sha256:{"b" * 64}"'])
def test_an_image_beside_triton_gets_its_digest_inside_its_own_text(tmp_path: Path, quoted: str) -> None:
    """The test makes a first and a later pin; the same image in two models is pinned in both."""
    file = tmp_path / "h100.py"
    file.write_text(f"a = LLM(image={quoted})\nb = LLM(image={quoted})\n# {REFERENCE} is not a text of Python\n")
    changes = write_runtimes(file, {REFERENCE: NEW})
    pinned_text = quoted[0] + f"{REFERENCE}@{NEW}" + quoted[0]
    assert file.read_text().splitlines()[:2] == [f"a = LLM(image={pinned_text})", f"b = LLM(image={pinned_text})"]
    assert (NEW in changes, write_runtimes(file, {REFERENCE: NEW})) == (
        True,
        f"{REFERENCE} is pinned to {NEW} already\n",
    )


def test_a_composed_image_is_refused_with_the_line_to_write(tmp_path: Path) -> None:
    file = tmp_path / "h100.py"
    file.write_text('image = "vllm/vllm-openai" + ":v0.26.0"\n')
    with pytest.raises(Refusal) as refused:
        write_runtimes(file, {REFERENCE: NEW})
    assert refused.value.attempt == f'image="{REFERENCE}@{NEW}"'
    assert NEW not in file.read_text()


def test_images_beside_triton_are_logins_their_own_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The login is for the registry of the host's own image, and no other registry gets it."""
    logins: dict[str, Login] = {}
    monkeypatch.setattr(pin, "digest_of", lambda reference, login: logins.setdefault(reference, login) and NEW)
    monkeypatch.setenv("NGC_API_KEY", "right")
    for image in (REFERENCE, "nvcr.io/nvidia/vllm-mine:0.26.0-py3"):
        data = main(RERANKER, replace(LLAMA, replay=None, runtime="vllm", image=image))
        planned = plan(**data, gateway=Gateway(), registry=Registry(key=Secret.env("NGC_API_KEY")))
        assert pin.pinned_runtimes(planned) == {image: NEW}
    assert [login.key for login in logins.values()] == ["", "right"]


def test_a_reference_without_a_host_is_docker_s_own_registry() -> None:
    assert split(REFERENCE) == ("registry-1.docker.io", "vllm/vllm-openai", "v0.26.0")
    assert split("docker.io/vllm/vllm-openai:v1") == ("registry-1.docker.io", "vllm/vllm-openai", "v1")
    assert split("localhost:5000/mine:1") == ("localhost:5000", "mine", "1")


def test_the_shipped_inventory_is_pinned_by_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both images are pinned in one call, as the plan's notes advise."""
    file = tmp_path / "h100_vllm.py"
    file.write_text((Path(__file__).parents[2] / "inventories/h100_vllm.py").read_text())
    monkeypatch.setattr(pin, "digest_of", lambda reference, login: NEW)
    for word in ("now", "again"):
        ran = CliRunner().invoke(command, [str(file)])
        assert (ran.exit_code, ran.output.count(NEW)) == (0, 2), word
    later = file.rename(tmp_path / "later.py")  # pyinfra caches compiled files by name
    assert "is not pinned" not in "".join(load_plan(str(later)).warnings)
