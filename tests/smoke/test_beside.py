"""The LLM beside a Triton server: its unit, its container, and a token, asked on the host like the gateway does."""

from __future__ import annotations

import json

from testinfra.host import Host

from deploy.slices.host import ServerSlice


def test_the_unit_is_active_enabled_and_has_never_restarted(machine: Host, server: ServerSlice) -> None:
    """NRestarts counts the crashes since the last start."""
    unit = machine.service(f"llm@{server.name}")
    assert (unit.is_running, unit.is_enabled, unit.systemd_properties["NRestarts"]) == (True, True, "0")


def test_the_program_answers_with_tokens_under_the_planned_name(machine: Host, server: ServerSlice) -> None:
    """The program answers a short prompt at the port to which the gateway sends."""
    assert server.standalone_llm
    model, runtime = server.standalone_llm
    body = json.dumps({"model": model.name, "prompt": "The boiler of a steam engine", "max_tokens": 8})
    url = f"http://127.0.0.1:{runtime.port}/v1/completions"
    answer = machine.check_output("curl -sS -H 'Content-Type: application/json' -d %s %s", body, url)
    assert json.loads(answer)["usage"]["completion_tokens"] > 0


def test_the_program_listens_on_loopback_alone(machine: Host, server: ServerSlice) -> None:
    """The program's port requires no key."""
    assert server.standalone_llm
    port = server.standalone_llm[1].port
    bindings = machine.docker(f"llm-{server.name}").inspect()["HostConfig"]["PortBindings"]
    assert [row for rows in bindings.values() for row in rows] == [{"HostIp": "127.0.0.1", "HostPort": str(port)}]


def test_the_container_runs_as_a_user_without_capabilities_on_a_read_only_root(
    machine: Host, server: ServerSlice
) -> None:
    """The limits are those of Triton's own container."""
    container = machine.docker(f"llm-{server.name}").inspect()
    settings = container["HostConfig"]
    assert container["Config"]["User"].split(":")[0] not in ("", "0", "root")
    assert (settings["ReadonlyRootfs"], settings["CapDrop"]) == (True, ["ALL"])


def test_the_running_container_is_the_planned_image(machine: Host, server: ServerSlice) -> None:
    """A pinned image is compared by its digest, not by today's meaning of a tag."""
    assert server.standalone_llm
    image = server.standalone_llm[1].image
    container = machine.docker(f"llm-{server.name}").inspect()
    digests = json.loads(machine.check_output("docker image inspect %s", container["Image"]))[0]["RepoDigests"]
    assert image.pull_reference in [*digests, container["Config"]["Image"]]
