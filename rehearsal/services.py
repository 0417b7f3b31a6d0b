"""The servers that replace NVIDIA's, Docker's and Hugging Face's for a rehearsal: started, found, stopped.

    python -m rehearsal.services up | down | status | fault KIND [ARGUMENTS]

Four processes, detached, each with a pid file and a log under `.rehearsal/services`: the apt repository, the registry
and its front, the hub. They listen on the machines' bridge, or on loopback while there is none. Their files are made
first and kept in the cache. Secrets are generated at the start with mode 0600 and belong to this clone.
"""

from __future__ import annotations

import argparse
import base64
import dataclasses
import json
import secrets
import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from rehearsal import apt_repository, hub, registry, ssh, triton_image
from rehearsal.artifacts import digest_of
from rehearsal.certificates import certificate
from rehearsal.checkpoints import checkpoints
from rehearsal.network import SERVICE_NAMES, Network
from rehearsal.places import REPOSITORY, Places, RehearsalRefused, cache
from rehearsal.processes import Process
from rehearsal.requirements import SERVICE_PROGRAMS

SECRETS = {
    "ngc_key": "nvapi-rehearsal-", "ngc_key_without_access": "nvapi-rehearsal-no-access-",
    "hub_token": "hf_rehearsal", "hub_token_without_access": "hf_rehearsalNoAccess",
}  # fmt: skip
DAEMON = "docker-registry"


@dataclass(frozen=True)
class Services:
    """Everything that an inventory needs to use the services; only the machines resolve the names."""

    address: str
    """Address on which the services listen, for programs on the outer machine."""
    apt_url: str
    apt_key_file: Path
    registry_host: str
    registry_ca_file: Path
    ngc_key: str
    image: str
    image_digest: str
    hub_url: str
    hub_token: str
    checkpoints: Path
    revisions: dict[str, str]
    hub_tls_url: str = ""
    """URL of the hub over TLS, since inventories send the hub a token; `registry_ca_file`'s authority signed its
    certificate."""

    def to_json(self) -> str:
        """Returns the fields of services.json."""
        return json.dumps(dataclasses.asdict(self), indent=2, default=str) + "\n"

    @classmethod
    def of_json(cls, text: str) -> Services:
        """Parses services.json."""
        values = json.loads(text)
        paths = {name: Path(values[name]) for name in ("apt_key_file", "registry_ca_file", "checkpoints")}
        return cls(**values | paths)


def services_up(address: str | None = None, served: Artefacts | None = None) -> Services:
    """Starts the services that do not run, and waits for them. They serve `served` if that was made elsewhere."""
    if served is None:
        _refuse_missing_programs()
    places = Places.here()
    with places.locked():
        folder, chosen = _folder(places), address or _address(places)
        served = served or Artefacts(apt_repository.repository(), triton_image.image(), checkpoints())
        _make_secrets(places)
        certificate(folder, list(SERVICE_NAMES), [chosen, "127.0.0.1"])
        started = {process.name for process in _processes(places, chosen, served) if process.start()}
        _fill_registry(places, served.image, renewed=DAEMON in started)
        services = _describe(places, chosen, served)
        _write_private(folder / "services.json", services.to_json())
        return services


def prepare() -> None:
    """Builds all artefacts in the cache, so that `services_up` is quick; needs no network of machines yet."""
    _refuse_missing_programs()
    Artefacts(apt_repository.repository(), triton_image.image(), checkpoints())


def packages() -> list[str]:
    """Returns the Debian packages the services use on the outer machine."""
    return sorted(set(SERVICE_PROGRAMS.values()))


def _refuse_missing_programs() -> None:
    present = {name for name in SERVICE_PROGRAMS if shutil.which(name) or Path(name).is_file()}
    lacking = {package for name, package in SERVICE_PROGRAMS.items() if name not in present}
    if lacking:
        raise RehearsalRefused(
            f"this machine lacks what the rehearsal's services are made with: {', '.join(sorted(lacking))}\n"
            f"  try     apt-get install --no-install-recommends {' '.join(sorted(lacking))}\n"
            "  state   nothing was started"
        )


def services_down() -> None:
    """Stops all services of this rehearsal."""
    places = Places.here()
    with places.locked():
        for pid_file in _folder(places).glob("*.pid"):
            Process(pid_file.stem, pid_file.parent, [], None).stop()
        (_folder(places) / "services.json").unlink(missing_ok=True)


def read_services() -> Services:
    """Returns the last result of `services_up`, without starting a service."""
    path = _folder(Places.here()) / "services.json"
    if not path.exists():
        raise RehearsalRefused("the rehearsal's services are not running\n  try     python -m rehearsal.services up")
    return Services.of_json(path.read_text())


@dataclass(frozen=True)
class Artefacts:
    """The served files, as folders in the cache."""

    apt: Path
    image: Path
    checkpoints: Path


def _processes(places: Places, address: str, served: Artefacts) -> list[Process]:
    folder = _folder(places)
    backend = _backend_port(folder)
    key = _secret(places, "ngc_key")
    configuration = registry.write_configuration(folder, cache() / "registry", backend, key)
    python = [sys.executable, "-m"]
    listen = ["--address", address, "--port"]
    front = [*python, "rehearsal.registry", "front", *listen, str(registry.PORT), "--backend", f"127.0.0.1:{backend}"]
    web = [*python, "rehearsal.web", *listen, str(apt_repository.PORT), str(served.apt)]
    models = [*python, "rehearsal.hub", *listen, str(hub.PORT), "--state", str(folder), str(served.checkpoints)]
    modules = ("web", "registry", "hub", "hub_repository")
    code = digest_of(*(REPOSITORY / f"rehearsal/{name}.py" for name in modules), folder / "server.crt")
    return [
        Process("apt", folder, web, (address, apt_repository.PORT), code),
        Process(DAEMON, folder, [DAEMON, "serve", str(configuration)], ("127.0.0.1", backend)),
        Process("registry", folder, [*front, str(folder)], (address, registry.PORT), code),
        Process("hub", folder, models, (address, hub.PORT), code),
    ]


def _fill_registry(places: Places, image: Path, renewed: bool) -> None:
    """Pushes the image to the registry, needed only after a fresh start or for another image."""
    remembered = _folder(places) / "pushed"
    digest = triton_image.image_digest(image)
    if not renewed and remembered.exists() and remembered.read_text() == digest:
        return
    login = base64.b64encode(f"{registry.USER}:{_secret(places, 'ngc_key')}".encode()).decode()
    triton_image.push(image, _backend_port(_folder(places)), f"Basic {login}")
    remembered.write_text(digest)


def _describe(places: Places, address: str, served: Artefacts) -> Services:
    known = hub.repositories(served.checkpoints)
    return Services(
        address=address,
        apt_url=apt_repository.URL,
        apt_key_file=served.apt / "key.asc",
        registry_host=registry.HOST,
        registry_ca_file=_folder(places) / "ca.crt",
        ngc_key=_secret(places, "ngc_key"),
        image=f"{registry.HOST}/{triton_image.REPOSITORY}:{triton_image.TAG}",
        image_digest=triton_image.image_digest(served.image),
        # An address, because the control machine also uses it, and does not know the machines' names.
        hub_url=f"http://{address}:{hub.PORT}",
        hub_token=_secret(places, "hub_token"),
        checkpoints=served.checkpoints,
        revisions={name: repository.commit for name, repository in known.items()},
        hub_tls_url=f"https://{address}:{hub.TLS_PORT}",
    )


def _make_secrets(places: Places) -> None:
    for name, prefix in SECRETS.items():
        path = places.root / "secrets" / name
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            _write_private(path, prefix + secrets.token_hex(16))
    ssh.make_key(places.root / "secrets" / "engine_key")
    # The fault switches of front and hub read their keys from the service folder.
    folder = _folder(places)
    _write_private(folder / "key-without-access", _secret(places, "ngc_key_without_access"))
    for name in ("hub_token", "hub_token_without_access"):
        _write_private(folder / name, _secret(places, name))


def _secret(places: Places, name: str) -> str:
    return (places.root / "secrets" / name).read_text()


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text)


def _folder(places: Places) -> Path:
    folder = places.root / "services"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _address(places: Places) -> str:
    """Returns the bridge's address if this machine has it, else loopback."""
    bridge = Network(places.number).bridge_address
    with socket.socket() as trial:
        try:
            trial.bind((bridge, 0))
            return bridge
        except OSError:
            return "127.0.0.1"


def _backend_port(folder: Path) -> int:
    """Returns a free loopback port for the registry behind the front, the same one each time."""
    remembered = folder / "backend-port"
    if not remembered.exists():
        with socket.socket() as trial:
            trial.bind(("127.0.0.1", 0))
            remembered.write_text(str(trial.getsockname()[1]))
    return int(remembered.read_text())


def _status() -> str:
    folder = _folder(Places.here())
    rows = []
    for name in ("apt", DAEMON, "registry", "hub"):
        process = Process(name, folder, [], None)
        rows.append(f"{name:16}{'runs' if process.runs() else 'does not run':14}{folder / f'{name}.log'}")
    return "\n".join(rows)


def _fault(words: list[str]) -> None:
    """Switches a fault on, or all faults off."""
    folder = _folder(Places.here())
    match words:
        case ["none"]:
            for path in folder.glob("fault-*"):
                path.unlink()
        case ["sporadic-401", times]:
            (folder / "fault-sporadic-401").write_text(str(int(times)))
        case ["cut-large", times, size]:
            (folder / "fault-cut-large").write_text(f"{int(times)} {int(size)}")
        case _:
            raise RehearsalRefused(
                "there is no such fault\n  try     none | sporadic-401 TIMES | cut-large TIMES BYTES"
            )


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m rehearsal.services", description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("up").add_argument("--address")
    verbs.add_parser("down")
    verbs.add_parser("status")
    verbs.add_parser("fault").add_argument("words", nargs="+")
    chosen = parser.parse_args()
    try:
        if chosen.verb == "up":
            services = services_up(chosen.address)
            print(services.apt_url, services.image, services.image_digest, services.hub_url, sep="\n")
            print(f"listen on {services.address}")
        elif chosen.verb == "down":
            services_down()
        elif chosen.verb == "fault":
            _fault(chosen.words)
        else:
            print(_status())
    except RehearsalRefused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
