"""A cloud for rehearsal machines: images with Debian's cloud-init, NoCloud seeds, and a server of archive and secrets.

A machine is forked from such an image with the seed already on its disk, so its first start is a first boot.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from rehearsal import forks, machines, services
from rehearsal.artifacts import digest_of, made_once
from rehearsal.hardware import h100
from rehearsal.machine import Machine
from rehearsal.network import Network
from rehearsal.places import REPOSITORY, Places
from rehearsal.services import Services
from rehearsal.waiting import wait_for
from roles._shipping import repairs

PORT = 8490
INSTALL = "apt-get -q update && apt-get -q -y install --no-install-recommends cloud-init && cloud-init clean --logs"
LOCK = REPOSITORY / "locks/requirements.lock"
REPAIRS = "".join(f"{w.name}=={w.version} --hash=sha256:{w.digest}\n" for w in repairs.wheels(repairs.REPAIRS))
PYTHONS = {"12": "3.11", "13": "3.13"}
"""Python version by Debian release."""
CARRIED = ("config.py", "deploy.py", "doctor.py", "deploy", "files", "inventories", "locks", "roles", "templates")
STATE = "/var/lib/enginehouse-first-boot/state.json"
INVENTORY = '''"""Rehearsal machines that deploy themselves, with the addresses and pins of this rehearsal."""

from deploy.catalog.holes import HOLES as _HOLES
from deploy.spec import AcceptedHoles, AptMirror, Embedder, Firewall, Hub, Machine, Mirrors, Registry, Release, Secret
from deploy.spec import Server, Weights

_HOLE_IDS = tuple(hole.id for hole in _HOLES if hole.component == "triton")


def _data(address: str, system: str) -> dict[str, object]:
    minilm = Embedder(
        name="minilm",
        checkpoint="all-minilm-l6-v2",
        weights=Weights.hub("rehearsal/minilm", "{revision}"),
        dtype="float32",
        device="cpu",
        max_tokens=256,
        max_batch_tokens=4096,
    )
    server = Server(
        name="main",
        models=(minilm,),
        address=address,
        protection="firewall",
        start_seconds=300,
        accepts=AcceptedHoles(ids=_HOLE_IDS, reason="only the outer machine reaches its bridge"),
    )
    return {{
        "ssh_config_file": "inventories/ssh_config_rehearsal",
        "_sudo": True,
        "machine": Machine(os=system, gpu="h100-80"),
        "release": Release(
            name="rehearsal",
            derived_from="26.07",
            image="{image}",
            digest="{digest}",
            triton_core="2.51.0",
            size_mib=512,
        ),
        "registry": Registry(key=Secret.env("NGC_API_KEY"), ca_file="inventories/rehearsal-ca.crt"),
        "hub": Hub(endpoint="{hub}", token=Secret.env("HF_TOKEN"), ca_file="inventories/rehearsal-ca.crt"),
        "mirrors": Mirrors(
            nvidia=AptMirror(url="{apt}/compute/cuda/repos", key_file="inventories/rehearsal-apt.asc"),
            docker=AptMirror(url="{apt}/linux", key_file="inventories/rehearsal-apt.asc"),
            toolkit=AptMirror(url="{apt}/libnvidia-container/stable/deb", key_file="inventories/rehearsal-apt.asc"),
        ),
        "servers": (server,),
        "firewall": Firewall(allow=("{network}",)),
    }}


self_made = [(name, _data(address, debian)) for name, address, debian in {hosts}]
'''


@dataclass
class Cloud:
    """A rehearsal's images, its checkout as an operator would archive it, and the server of archive and secrets."""

    places: Places
    services: Services

    @property
    def folder(self) -> Path:
        """Returns the folder of downloads for machines: archive.tar.gz and secrets."""
        return self.places.root / "cloud/served"

    @property
    def checkout(self) -> Path:
        """Returns the repository with the inventory of these hosts."""
        return self.places.root / "cloud/checkout"

    @property
    def url(self) -> str:
        """Returns the server's address, seen from machines."""
        return f"http://{Network(self.places.number).bridge_address}:{PORT}"

    def image_files(self) -> dict[str, str]:
        """Returns settings of the image: its address is static, and pip takes packages only from this cloud."""
        host = Network(self.places.number).bridge_address
        return {
            "/etc/cloud/cloud.cfg.d/90-rehearsal.cfg": "network: {config: disabled}\n",
            "/etc/pip.conf": f"[global]\nno-index = true\nfind-links = {self.url}/wheels/\ntrusted-host = {host}\n",
        }

    def make_image(self, debian: str) -> str:
        """Returns the name of a snapshot: a bare Debian with cloud-init from its archive, never booted with a seed."""
        name = f"cloud-image-{debian}"
        if not (self.places.snapshots / name).exists():
            (machine,) = machines.up([f"image{debian}"], debian, places=self.places)
            machine.run(INSTALL, timeout=900)
            for path, text in self.image_files().items():
                machine.put(path, text)
            machine.stop()
            machines.snapshot(machine, name)
            machine.destroy()
        return name

    def make_machine(self, name: str, debian: str) -> Machine:
        """Returns a machine of that image that was never started."""
        image = self.make_image(debian)
        forks.fork(self.places.machines / name, self.places, debian, h100(), image)
        return machines.named(name, self.places)

    def publish(self, hosts: list[Machine]) -> str:
        """Writes the inventory and the archive with it. Returns the archive's SHA-256."""
        shutil.rmtree(self.checkout, ignore_errors=True)
        for name in CARRIED:
            source, target = REPOSITORY / name, self.checkout / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, target)
        inventories = self.checkout / "inventories"
        shutil.copy2(self.services.registry_ca_file, inventories / "rehearsal-ca.crt")
        shutil.copy2(self.services.apt_key_file, inventories / "rehearsal-apt.asc")
        shutil.copy2(self.places.ssh_config, inventories / "ssh_config_rehearsal")
        (inventories / "self_made.py").write_text(
            INVENTORY.format(
                revision=self.services.revisions["rehearsal/minilm"],
                image=self.services.image,
                digest=self.services.image_digest,
                hub=self.services.hub_tls_url,
                apt=self.services.apt_url,
                network=Network(self.places.number).subnet,
                hosts=[(machine.name, machine.address, machine.os) for machine in hosts],
            )
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        archive = self.folder / "archive.tar.gz"
        with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
            packed.add(self.checkout, "enginehouse")
        secrets = f"NGC_API_KEY={self.services.ngc_key}\nHF_TOKEN={self.services.hub_token}\n"
        (self.folder / "secrets").write_text(secrets)
        return sha256(archive.read_bytes()).hexdigest()

    def user_data(self, host: Machine, digest: str, archive: str = "archive.tar.gz") -> str:
        """Returns the text that `enginehouse export cloud-init` prints for a host."""
        words = ["export", "cloud-init", "inventories/self_made.py", host.name, "--sha256", digest]
        words += ["--from", f"{self.url}/{archive}", "--secrets", f"curl -fsS {self.url}/secrets"]
        return self.typed(*words).stdout

    def typed(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs `enginehouse WORDS` in the operator's checkout."""
        command = [sys.executable, "-m", "deploy", *words]
        environment = os.environ | {"PYTHONPATH": str(self.checkout)}
        ended = subprocess.run(command, cwd=self.checkout, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0 or not check, ended.stdout + ended.stderr
        return ended

    def boot(self, machine: Machine, user_data: str) -> None:
        """Powers the machine on for the first time, with this seed on its disk, without waiting."""
        seed = machine.directory / "upper/var/lib/cloud/seed/nocloud"
        seed.mkdir(parents=True)
        (seed / "user-data").write_text(user_data)
        (seed / "meta-data").write_text(f"instance-id: {machine.name}-1\nlocal-hostname: {machine.name}\n")
        machine.power_on()

    def learn_host_key(self, machine: Machine) -> None:
        """Pins the host key that cloud-init made, as an operator reads it on the provider's serial console."""
        key = machine.run("cat /etc/ssh/ssh_host_ed25519_key.pub").stdout
        forks.write_record(machine.directory, machine.record | {"host_key": " ".join(key.split()[:2])})
        machines.write_ssh_config(self.places)


def state(machine: Machine) -> dict[str, object]:
    """Returns the state file of a first boot; empty while there is none."""
    with contextlib.suppress(Exception):
        record: dict[str, object] = json.loads(machine.run(f"cat {STATE}").stdout)
        return record
    return {}


def wait_until_ended(machine: Machine, seconds: float) -> dict[str, object]:
    """Returns the state of a first boot that has succeeded or failed."""
    wait_for(lambda: state(machine).get("state") in ("serving", "failed"), seconds, machine)
    return state(machine)


@contextlib.contextmanager
def cloud(places: Places) -> Iterator[Cloud]:
    """Yields a cloud without machines; removes it before and afterwards."""
    throw_away(places)
    web = None
    try:
        machines.up([], places=places)
        made = Cloud(places, services.services_up())
        made.folder.mkdir(parents=True)
        key = digest_of(LOCK, REPAIRS, *PYTHONS.values())
        (made.folder / "wheels").symlink_to(made_once("lock-wheels", key, fetch_wheels))
        words = ["-m", "rehearsal.web", "--address", Network(places.number).bridge_address, "--port", str(PORT)]
        web = subprocess.Popen([sys.executable, *words, str(made.folder)], cwd=REPOSITORY, stderr=subprocess.DEVNULL)
        yield made
    finally:
        if web:
            web.kill()
            web.wait()
        throw_away(places)


def fetch_wheels(folder: Path) -> None:
    """Downloads the wheels of the lock for each Debian's Python, and those that repair the image, with their hashes."""
    words = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    words += ["--require-hashes", "--dest", str(folder), "--requirement"]
    for version in PYTHONS.values():
        subprocess.run([sys.executable, "-m", "pip", *words, str(LOCK), "--python-version", version], check=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write(REPAIRS)
        listed.flush()
        subprocess.run([sys.executable, "-m", "pip", *words, listed.name], check=True)


def throw_away(places: Places) -> None:
    """Removes machines, services, images and the checkout of this rehearsal."""
    machines.down(places)
    services.services_down()
    for image in places.snapshots.glob("cloud-image-*"):
        shutil.rmtree(image)
    shutil.rmtree(places.root / "cloud", ignore_errors=True)
