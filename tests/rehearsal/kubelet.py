"""Runs a Pod of a manifest under a machine's Docker: volumes, init containers, sidecars, probes and hooks.

It does kubelet's work for a Pod, in the same order, with the whole manifest except the names of images (the machine has
them) and the device, which a device plugin would choose.
"""

from __future__ import annotations

import base64
import io
import shlex
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rehearsal.machine import Machine

HOME = "/root/pods"
NETWORK = "pods"
"""A bridge without a way out, in the place of the network policies: Pods reach each other by their names."""


@dataclass
class Pod:
    """A Pod on a machine; `files` are the texts of ConfigMaps and Secrets by (name, key)."""

    machine: Machine
    name: str
    spec: dict[str, Any]
    files: dict[tuple[str, str], str]
    network: str = NETWORK
    device: str = "nvidia.com/gpu=0"
    names: tuple[str, ...] = ()
    """Names of Services that lead only to this Pod, at the container's own ports."""
    mounts: tuple[str, ...] = ()
    """Arguments of `--mount` for parts that the image takes from the machine."""
    begun: list[str] = field(default_factory=list)

    @property
    def home(self) -> str:
        """Returns the directory of its volumes."""
        return f"{HOME}/{self.name}"

    def make(self) -> None:
        """Fills the volumes and starts a first container that holds the Pod's network."""
        group = self.spec["securityContext"]["fsGroup"]
        for volume in self.spec["volumes"]:
            path = f"{self.home}/{volume['name']}"
            if claim := volume.get("persistentVolumeClaim"):
                path = f"{HOME}/claims/{claim['claimName']}"
            self.machine.run(f"install -d -m 2777 -g {group} {path}")
            if texts := dict(self._texts(volume)):
                self._unpack(path, texts, group)
        words = ["docker", "run", "-d", "--name", f"{self.name}-pause", "--network", self.network, *self._mounts()]
        words += [word for name in self.names for word in ("--network-alias", name)]
        words += [self.spec["containers"][0]["image"], "sleep", "infinity"]
        self.machine.run(f"docker network create --internal {NETWORK} || true; {shlex.join(words)}", timeout=120)

    def start(self, name: str) -> None:
        """Starts a container; waits for the success of an init container without restarts."""
        box = self.container(name)
        is_init = box in self.spec.get("initContainers", []) and box.get("restartPolicy") != "Always"
        words = self.docker(box, "--rm" if is_init or self.spec.get("restartPolicy") else "--detach")
        self.begun.append(name)
        self.machine.run(shlex.join(words), timeout=600)

    def refuses(self, name: str) -> str:
        """Returns the output of a container that ends with an error."""
        ended = self.machine.run(shlex.join(self.docker(self.container(name), "--rm")), check=False, timeout=600)
        assert ended.returncode, ended.stdout
        return ended.stdout + ended.stderr

    def docker(self, box: dict[str, Any], how: str) -> list[str]:
        """Returns `docker run` with all settings of this container in the manifest."""
        context, own = self.spec["securityContext"], box["securityContext"]
        words = ["docker", "run", how, "--name", f"{self.name}-{box['name']}", "--pull", "never"]
        words += ["--network", f"container:{self.name}-pause"]
        words += ["--user", f"{context['runAsUser']}:{context['runAsGroup']}", "--group-add", str(context["fsGroup"])]
        words += ["--read-only"] * own["readOnlyRootFilesystem"]
        words += [word for right in own["capabilities"]["drop"] for word in ("--cap-drop", right)]
        words += ["--security-opt", "no-new-privileges"] * (not own["allowPrivilegeEscalation"])
        words += ["--device", self.device] * ("nvidia.com/gpu" in box.get("resources", {}).get("limits", {}))
        words += [word for item in box.get("env", []) for word in ("--env", f"{item['name']}={item['value']}")]
        words += [word for mount in box["volumeMounts"] for word in ("--mount", self._mount(mount))]
        words += [*self._mounts(), *(["--workdir", box["workingDir"]] if "workingDir" in box else [])]
        command = box.get("command", [])
        words += ["--entrypoint", command[0]] if command else []
        return [*words, box["image"], *command[1:], *box.get("args", [])]

    def container(self, name: str) -> dict[str, Any]:
        """Returns a container of the Pod."""
        boxes: list[dict[str, Any]] = [*self.spec.get("initContainers", []), *self.spec["containers"]]
        return next(box for box in boxes if box["name"] == name)

    def probe(self, name: str, kind: str) -> bool:
        """Runs a probe or hook of a container like kubelet."""
        box = self.container(name)
        probe = box["lifecycle"]["preStop"] if kind == "preStop" else box[kind]
        if "exec" in probe:
            words = ["docker", "exec", f"{self.name}-{name}", *probe["exec"]["command"]]
            seconds = probe.get("timeoutSeconds", self.spec.get("terminationGracePeriodSeconds", 30))
            return not self.machine.run(f"timeout {seconds} {shlex.join(words)}", check=False, timeout=None).returncode
        if "tcpSocket" in probe:
            connect = f"bash -c '</dev/tcp/{self.address}/{probe['tcpSocket']['port']}'"
            return not self.machine.run(f"timeout {probe.get('timeoutSeconds', 1)} {connect}", check=False).returncode
        target = probe["httpGet"]
        url = f"http://{self.address}:{target['port']}{target['path']}"
        return not self.machine.run(f"curl -sf -m {probe['timeoutSeconds']} {url}", check=False).returncode

    @property
    def address(self) -> str:
        """Returns the Pod's own address."""
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        return self.machine.run(f"docker inspect -f '{form}' {self.name}-pause").stdout.strip()

    def gone(self) -> None:
        """Removes the containers of the Pod and its volumes; claims stay."""
        self.machine.run(
            f"docker ps -aq --filter name=^{self.name}- | xargs -r docker rm -f; rm -rf {self.home}", check=False
        )

    def _mounts(self) -> list[str]:
        return [word for mount in self.mounts for word in ("--mount", mount)]

    def _mount(self, mount: dict[str, Any]) -> str:
        volume = next(volume for volume in self.spec["volumes"] if volume["name"] == mount["name"])
        source = f"{self.home}/{mount['name']}"
        if claim := volume.get("persistentVolumeClaim"):
            source = f"{HOME}/claims/{claim['claimName']}"
        source += f"/{mount['subPath']}" if "subPath" in mount else ""
        return f"type=bind,source={source},target={mount['mountPath']}" + (",readonly" * mount.get("readOnly", False))

    def _texts(self, volume: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """Yields (path in the volume, text)."""
        sources = volume.get("projected", {}).get("sources", [])
        if "secret" in volume:
            sources = [{"secret": {"name": volume["secret"]["secretName"], "items": volume["secret"]["items"]}}]
        for source in sources:
            (named,) = source.values()
            for item in named["items"]:
                yield item["path"], self.files[named["name"], item["key"]]

    def _unpack(self, path: str, texts: dict[str, str], group: int) -> None:
        """Writes a volume of texts like kubelet: a dated directory, a link to it, and links to its files."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name, text in texts.items():
                entry = tarfile.TarInfo(f"..2026_11_27/{name}")
                entry.size, entry.mode = len(text.encode()), 0o444
                archive.addfile(entry, io.BytesIO(text.encode()))
        content = base64.b64encode(packed.getvalue()).decode()
        self.machine.run(f"base64 -d | tar -xz -C {path} && chgrp -R {group} {path}", input=content)
        top = sorted({name.split("/")[0] for name in texts})
        links = "; ".join(f"ln -sfn ..data/{name} {name}" for name in top)
        self.machine.run(f"cd {path} && chmod 755 ..2026_11_27 && ln -sfn ..2026_11_27 ..data && {links}")
