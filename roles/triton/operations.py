"""Commands for the difference: the files that a release lacks on this host, and those that no release needs."""

import shlex
from collections.abc import Callable, Iterator, Sequence

from pyinfra.api.command import PyinfraCommand, StringCommand

from deploy.slices.host import ServerSlice
from roles._shipping import places
from roles._shipping.places import PROBES, PROGRAMS, UNITS
from roles._shipping.texts import Text, shipped
from roles.triton.defaults import Defaults
from roles.triton.facts import Proof, TritonState
from roles.triton.judging import replay_of
from roles.triton.publishing import Publish
from roles.triton.release import ServerRelease
from roles.triton.render import UID
from roles.triton.swapping import Asking, ask_for, swap_seconds

NEEDRESTART = "/etc/needrestart/conf.d/52-enginehouse-llm.conf"
NEEDRESTART_CONTENT = "$nrconf{override_rc}{qr(^llm@)} = 0;\n"
"""Exceptions for needrestart, which restarts programs with old libraries, on Ubuntu 24.04 without asking."""
Decide = Callable[[TritonState], Iterator[PyinfraCommand]]


def texts(releases: Sequence[ServerRelease]) -> list[Text]:
    return [
        shipped("files/shell/guard.sh", places.program("guard.sh"), "0755"),
        shipped("files/shell/prepare.sh", places.program("prepare.sh"), "0755"),
        *(
            shipped(f"files/units/{unit}", f"{UNITS}/{unit}")
            for unit in ("triton@.service", "enginehouse-swap@.service")
        ),
        shipped("files/units/docker-forgives.conf", f"{UNITS}/docker.service.d/52-enginehouse.conf"),
        *(release.unit_settings for release in releases),
        *_texts_of_llms(releases),
    ]


def _texts_of_llms(releases: Sequence[ServerRelease]) -> list[Text]:
    """The unit template of LLMs beside Triton, needrestart's exception, their drop-ins; empty without such LLMs."""
    drop_ins = [release.llm_settings for release in releases if release.llm_settings]
    unit = shipped("files/units/llm@.service", f"{UNITS}/llm@.service")
    return [unit, Text(NEEDRESTART, NEEDRESTART_CONTENT), *drop_ins] if drop_ins else []


def sweep(serving: TritonState) -> Iterator[PyinfraCommand]:
    """Commands that remove containers without a unit, which hold ports and GPUs that other servers are planned on."""
    for name in sorted(serving.orphans):
        yield StringCommand(f"docker rm --force {shlex.quote(f'triton-{name}')}")
    for name in sorted(serving.llm_orphans):
        yield StringCommand(f"docker rm --force {shlex.quote(f'llm-{name}')}")


def publish(release: ServerRelease) -> Decide:
    """Publishes the release on the host, without serving it yet."""

    def decide(serving: TritonState) -> Iterator[PyinfraCommand]:
        if release.id not in serving.releases:
            yield Publish(release)

    return decide


def prove_cuda(release: ServerRelease, settings: Defaults) -> Callable[[Proof], Iterator[PyinfraCommand]]:
    """Proves that CUDA works for this combination of image, driver, toolkit and GPUs."""

    def decide(proof: Proof) -> Iterator[PyinfraCommand]:
        if release.server.gpus and not proof.is_proven:
            yield from _probe(release.server, proof, settings)

    return decide


def swap(release: ServerRelease, planned: Sequence[ServerRelease], asking: Asking, settings: Defaults) -> Decide:
    """Swaps the release in and enables its unit at boot; servers that are no longer planned may be stopped for it."""

    def decide(serving: TritonState) -> Iterator[PyinfraCommand]:
        name = release.server.name
        server_state = serving.server(name)
        if server_state.enabled != "enabled" or not server_state.with_docker:
            yield StringCommand(f"systemctl enable {shlex.quote(f'triton@{name}.service')}")
        if release.llm_settings and server_state.llm_enabled != "enabled":
            yield StringCommand(f"systemctl enable {shlex.quote(f'llm@{name}.service')}")
        if not server_state.serves(release.id):
            spare = _spare(planned, serving)
            replay = replay_of(release.server)
            seconds = swap_seconds(release.change_seconds, settings, len(spare) + bool(replay))
            yield from ask_for(name, release.id, asking, settings, seconds, instead_of=spare, replay=replay)

    return decide


def retire(planned: Sequence[ServerRelease]) -> Decide:
    """Ends servers of earlier plans; their records and releases are kept."""

    def decide(serving: TritonState) -> Iterator[PyinfraCommand]:
        for name in _spare(planned, serving):
            yield _retire(name, serving.server(name).has_llm)
        for release in planned:
            if not release.llm_settings and serving.server(release.server.name).has_llm:
                yield StringCommand(_retire_llm(release.server.name))

    return decide


def _spare(planned: Sequence[ServerRelease], serving: TritonState) -> list[str]:
    """Servers of earlier plans with a part that would start, serve, or appear as failed."""
    names = {release.server.name for release in planned}
    return [name for name, state in serving.servers.items() if name not in names and not state.is_gone]


def _probe(server: ServerSlice, proof: Proof, settings: Defaults) -> Iterator[StringCommand]:
    """Commands that run CUDA inside the image, on the server's GPUs, through the server's own entry point.

    The container is read-only like the server's: the entry point and the toolkit's hook may install the image's newer
    CUDA libraries at start.
    """
    devices = shlex.join(word for device in server.devices for word in ("--device", device))
    program, name = f"{PROGRAMS}/host/cuda_probe.py", shlex.quote(f"enginehouse-probe-{server.name}")
    # A container that hangs in the driver outlives its client, and would keep the GPU.
    gone = f"docker rm --force {name} >/dev/null 2>&1"
    yield StringCommand(
        f"{gone}; timeout {settings.probe_seconds} docker run --rm --name {name} --label io.enginehouse.probe=cuda"
        f" --pull never --network none --user {UID}:{UID} --cap-drop ALL"
        f" --security-opt no-new-privileges --read-only --tmpfs /tmp:rw,exec {devices}"
        f" --mount type=bind,source={program},target={program},readonly"
        f" {shlex.quote(server.image.pull_reference)} python3 {program} {len(server.gpus)}"
        f" && mkdir -p {PROBES} && touch {shlex.quote(f'{PROBES}/{proof.key}')} || {{ {gone}; false; }}"
    )


def _retire_llm(name: str) -> str:
    """Stops and disables the LLM beside a server whose plan has no such LLM."""
    unit, drop_in = shlex.quote(f"llm@{name}.service"), shlex.quote(f"{UNITS}/llm@{name}.service.d")
    return (
        f"systemctl disable --now {unit} && rm -rf {drop_in} && systemctl daemon-reload"
        f" && {{ systemctl reset-failed {unit} 2>/dev/null || true; }}"
    )


def _retire(name: str, has_llm: bool = False) -> StringCommand:
    """Stops and disables the server, its watchdog and its LLM, and clears their failed state."""
    of_llm = f"{_retire_llm(name)} && " if has_llm else ""
    unit, timer, swap_unit = map(
        shlex.quote, (f"triton@{name}.service", f"enginehouse-watch@{name}.timer", f"enginehouse-swap@{name}.service")
    )
    server = places.server(name)
    gone = shlex.join((f"{UNITS}/triton@{name}.service.d", f"{server}/current", f"{server}/swap.json"))
    return StringCommand(
        f"{of_llm}{{ systemctl disable --now {timer} 2>/dev/null || true; }} &&"
        f" systemctl disable --now {unit} && rm -rf {gone}"
        " && systemctl daemon-reload"
        f" && {{ systemctl reset-failed {unit} {swap_unit} 2>/dev/null || true; }}"
    )
