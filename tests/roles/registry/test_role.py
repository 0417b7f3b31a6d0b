"""The role on fake hosts: bare, finished, pulling, with and without a login."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.refusals.errors import Refusal
from deploy.slices.host import Slice
from deploy.spec import Registry, Secret
from host import pull as program
from roles import registry
from roles.registry.facts import Pull
from roles.registry.operations import mark_path, pull_id, registry_of, texts
from tests.roles.fake import Ran, run
from tests.roles.slices import IMAGE, a_slice

ANONYMOUS = a_slice()
WITH_KEY = a_slice(registry=Registry(key=Secret.env("NGC_API_KEY")))
ID = pull_id(IMAGE)
UNIT = f"enginehouse-pull@{ID}.service"
START = f"{{ systemctl reset-failed {UNIT} 2>/dev/null || true; }} && systemctl start --no-block {UNIT}"
HERE, GOING = "image=sha256:1\nActiveState=inactive", "ActiveState=activating\nStatusText=1 of 2 MiB"


def placed(mine: Slice) -> str:
    """The answer of a host with the right program, unit and settings."""
    return "\n".join(f"{text.wanted_fact} {text.path}" for text in texts(mine))


def play(mine: Slice, pull: Any, seen: str = "", **options: Any) -> Ran:
    """Begin and finish on one host with these answers about files and pull."""
    answers = {"%n %a %U": seen, "docker image inspect": pull}

    def story() -> None:
        registry.begin(mine)
        registry.finish(mine)

    return run(story, answers=answers | {f"{UNIT} 2>/dev/null": "ActiveState=inactive\nResult=success"}, **options)


def essential(ran: Ran) -> list[str]:
    """Commands without their standard input, except those that only write files."""
    return [command.partition("\n")[0] for command in ran.commands if "enginehouse-new" not in command]


def test_a_bare_host_pulls_without_a_login() -> None:
    assert essential(play(ANONYMOUS, "")) == ["systemctl daemon-reload", START, f"follow {UNIT}"]


def test_a_host_that_has_the_image_changes_nothing() -> None:
    ran = play(ANONYMOUS, HERE, placed(ANONYMOUS))
    assert (ran.changed, ran.would_change) == ((), ())


def test_a_pull_under_way_is_attached_to() -> None:
    assert essential(play(ANONYMOUS, GOING, placed(ANONYMOUS))) == [f"follow {UNIT}"]


def test_an_image_without_a_record_is_pulled_again() -> None:
    """Docker had the image, and the reboot came before the record; an image without a record would never be removed."""
    cut = "image=sha256:1\nbegun=1\nActiveState=inactive"
    assert essential(play(ANONYMOUS, cut, placed(ANONYMOUS))) == [START, f"follow {UNIT}"]


def test_a_pull_under_way_is_waited_for_though_docker_has_the_image() -> None:
    recording = "image=sha256:1\nbegun=1\nActiveState=activating"
    assert essential(play(ANONYMOUS, recording, placed(ANONYMOUS))) == [f"follow {UNIT}"]


def test_the_host_is_asked_for_the_mark_that_the_program_leaves(tmp_path: Path) -> None:
    """The role and the program agree on the mark's name."""
    record = json.loads(next(text.content for text in texts(ANONYMOUS) if "/pull/" in text.path))["record"]
    beside = record.replace(str(Path(record).parent), str(tmp_path))
    with program.begun(Path(beside)):
        (name,) = [path.name for path in tmp_path.iterdir()]
    assert f"/var/lib/enginehouse/images/{name}" in Pull().command("a", UNIT, mark_path(IMAGE))


def test_dry_says_that_a_bare_host_pulls() -> None:
    assert len(play(ANONYMOUS, "", dry=True).would_change) == 3


def test_the_key_goes_to_a_file_in_memory_and_the_unit_starts_in_the_same_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NGC_API_KEY", "nvapi-1")
    directory = f"/run/enginehouse/registry/{ID}"
    assert essential(play(WITH_KEY, "", placed(WITH_KEY)))[0] == (
        f"mkdir -p /run/enginehouse/registry && install -d -m 0700 {directory} && umask 077 && cat > {directory}/key"
        f" && test -s {directory}/key"
        f" && {START} || {{ rm -rf {directory}; exit 1; }}"
    )


def test_the_key_is_in_no_command_no_label_and_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NGC_API_KEY", "nvapi-1")
    ran = play(WITH_KEY, "")
    assert "nvapi-1" not in repr(
        (ran.commands, ran.operations, ran.log, [heard.command for heard in ran.shell["host"]])
    )
    assert not any("nvapi-1" in text.content for text in texts(WITH_KEY))


def test_an_empty_key_fails_the_host_and_names_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NGC_API_KEY", raising=False)
    ran = play(WITH_KEY, "")
    assert ran.failed_hosts == ("host",)
    assert "[@fake/host] a secret is empty: NGC_API_KEY in the shell that runs pyinfra" in ran.log


def test_a_host_that_has_the_image_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NGC_API_KEY", raising=False)
    assert play(WITH_KEY, HERE, placed(WITH_KEY)).failed_hosts == ()


def test_a_pinned_image_is_pulled_by_its_digest() -> None:
    pinned = a_slice(image=replace(IMAGE, digest="sha256:" + "a" * 64))
    settings = next(text for text in texts(pinned) if text.path.endswith(".json"))
    assert json.loads(settings.content)["reference"] == f"nvcr.io/nvidia/tritonserver@sha256:{'a' * 64}"


def test_a_private_certificate_lies_where_docker_looks(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("CERTIFICATE")
    image = replace(IMAGE, reference="registry.example:8443/a/b:1")
    mine = a_slice(image=image, registry=Registry(ca_file=str(tmp_path / "ca.crt")))
    assert [(text.path, text.content) for text in texts(mine)][-1] == (
        "/etc/docker/certs.d/registry.example:8443/ca.crt",
        "CERTIFICATE\n",
    )


def test_a_certificate_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"registry\.ca_file names no file"):
        texts(a_slice(registry=Registry(ca_file=str(tmp_path / "no.crt"))))


@pytest.mark.parametrize(
    ("reference", "host"),
    [("nvcr.io/nvidia/tritonserver:1", "nvcr.io"), ("localhost/a:1", "localhost"), ("ubuntu:24.04", "docker.io")],
)
def test_the_registry_of_a_reference(reference: str, host: str) -> None:
    assert registry_of(reference) == host


def test_a_failed_pull_shows_the_last_log_lines_of_its_unit() -> None:
    answers = {
        "journalctl": "nvcr.io rejected the key (401, unauthorized)",
        "docker image inspect": GOING,
        "systemctl show": "ActiveState=failed\nResult=exit-code",
    }
    ran = run(lambda: registry.finish(ANONYMOUS), answers=answers)
    assert "[@fake/host] nvcr.io rejected the key (401, unauthorized)" in ran.log
    assert any("rm -rf /run/enginehouse/registry/" in str(heard) for heard in ran.shell.values())
