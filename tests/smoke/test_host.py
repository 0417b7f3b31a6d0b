"""An audit of the host: the planned software runs, and private files are unreadable."""

from __future__ import annotations

import json

from testinfra.host import Host

from deploy.slices.host import ServerSlice, Slice

ROOT = "/var/lib/enginehouse"


def version(text: str) -> str:
    """Returns the upstream part of a Debian version: `580.178.04` of `580.178.04-1`."""
    return text.split(":")[-1].split("-")[0]


def test_the_loaded_driver_matches_the_disk_and_user_space(machine: Host) -> None:
    """NVML calls a mismatch of the three "Driver/library version mismatch"."""
    loaded = machine.file("/sys/module/nvidia/version").content_string.strip()
    on_disk = machine.check_output("/usr/sbin/modinfo -F version nvidia").strip()
    spoken = machine.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader").splitlines()[0].strip()
    assert loaded == on_disk == spoken


def test_the_driver_is_no_older_than_the_image_needs(machine: Host, mine: Slice) -> None:
    """The floor comes from the release's row in the catalog."""
    loaded = machine.file("/sys/module/nvidia/version").content_string.strip()
    assert [int(part) for part in loaded.split(".")] >= [int(part) for part in mine.driver.floor.split(".")]


def test_every_declared_gpu_is_offered_to_containers_through_cdi(machine: Host, mine: Slice) -> None:
    """`nvidia-ctk cdi list` names each GPU, or each MIG instance if they are cut, and `all`."""
    listed = machine.check_output("nvidia-ctk cdi list")
    gpus, cut = range(mine.machine.gpus), range(len(mine.mig))
    names = [f"{gpu}:{number}" for gpu in gpus for number in cut] or [str(gpu) for gpu in gpus]
    wanted = [f"nvidia.com/gpu={name}" for name in (*names, "all")]
    assert [name for name in wanted if name not in listed.split()] == []


def test_no_package_below_the_server_is_upgraded_automatically(machine: Host, mine: Slice) -> None:
    """Driver, toolkit and engine packages that the project installed are held."""
    held = machine.check_output("apt-mark showhold").split()
    assert any(name.startswith("nvidia-container-toolkit") for name in held)
    assert not mine.driver.manage or any("nvidia" in name and "container" not in name for name in held)


def test_the_unit_is_active_enabled_and_has_never_restarted(machine: Host, server: ServerSlice) -> None:
    """NRestarts counts the crashes since the last start."""
    unit = machine.service(f"triton@{server.name}")
    assert (unit.is_running, unit.is_enabled, unit.systemd_properties["NRestarts"]) == (True, True, "0")


def test_balancers_learn_that_the_server_is_ready(machine: Host, mine: Slice, server: ServerSlice) -> None:
    """The test asks like a foreign balancer; ours asks the same program in HAProxy's protocol."""
    traffic = mine.traffic
    assert traffic
    address = f"[{traffic.address}]" if ":" in traffic.address else traffic.address
    readiness = json.loads(
        machine.check_output("curl -s %s", f"http://{address}:{traffic.ready_port}/ready/{server.name}")
    )
    assert (readiness["state"], readiness["models"]) == ("ready", [model.name for model in server.models])


def test_the_running_container_is_the_planned_image(machine: Host, server: ServerSlice) -> None:
    """The running process must be the installed version: the image by digest, not by the tag's current meaning."""
    container = machine.docker(f"triton-{server.name}").inspect()
    digests = json.loads(machine.check_output("docker image inspect %s", container["Image"]))[0]["RepoDigests"]
    assert server.image.pull_reference in [*digests, container["Config"]["Image"]]
    assert not server.image.digest or any(name.endswith(server.image.digest) for name in digests)


def test_the_container_runs_as_a_user_without_capabilities_on_a_read_only_root(
    machine: Host, server: ServerSlice
) -> None:
    """A break-in through a model would gain only these rights."""
    container = machine.docker(f"triton-{server.name}").inspect()
    settings = container["HostConfig"]
    assert container["Config"]["User"].split(":")[0] not in ("", "0", "root")
    assert (settings["ReadonlyRootfs"], settings["CapDrop"], settings["Privileged"]) == (True, ["ALL"], False)
    assert any(option.startswith("no-new-privileges") for option in settings["SecurityOpt"])


def test_the_container_can_open_no_connection_to_the_outside(machine: Host, server: ServerSlice) -> None:
    """A served model needs no network (192.0.2.1 is documentation space; the gateway is the host)."""
    probe = (
        "import socket,sys\n"
        "for address in sys.argv[1:]:\n"
        "    host, port = address.rsplit(':', 1)\n"
        "    try: socket.create_connection((host, int(port)), timeout=2)\n"
        "    except OSError: continue\n"
        "    print('connected', address)\n"
    )
    gateway = machine.docker(f"triton-{server.name}").inspect()["NetworkSettings"]["Networks"]
    host_side = next(iter(gateway.values()))["Gateway"]
    targets = f"192.0.2.1:443 {host_side}:22"
    ran = machine.run(f"docker exec triton-{server.name} python3 -c %s {targets}", probe)
    assert (ran.rc, ran.stdout.strip()) == (0, "")


def test_releases_and_weights_are_not_writable_by_the_service(machine: Host, mine: Slice) -> None:
    """The container's user may only read releases and weights."""
    loose = machine.check_output(f"find {ROOT}/weights {ROOT}/releases ! -type l -perm /022 | head -5")
    assert (machine.file(ROOT).user, loose.strip()) == ("root", "")


def test_no_registry_credential_is_left_on_the_host(machine: Host) -> None:
    """Credentials are in memory, and only during the pull."""
    leftovers = machine.check_output("ls -d /root/.docker/config.json /run/enginehouse/registry/* 2>/dev/null || true")
    assert leftovers.strip() == ""
