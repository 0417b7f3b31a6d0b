"""A server that `deploy.py` has brought: where it listens, what it is told with its key, if it is still the same.

What is told here (unload, load) an operator with the key could tell it too; nothing of the release is changed.
"""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from deploy.slices.host import ModelSlice, ServerSlice
from rehearsal.real_gpu.card import Machine
from roles._shipping import places

ANSWER_SECONDS = 60
POLL_SECONDS = 0.2
OUT_OF_MEMORY = "out of memory|OutOfMemory|CUDA error"
STARTED = re.compile(r"(?P<model>[\w.-]+): \w+ on \S+ in \S+, up to .* MiB held; (?P<kernels>.+)$")
"""An encoder's log lines at its load, with its choice of kernels last (files/encoders/serving.py)."""
OWN = ("steps", "attention", "products", "experts")
"""Choices for which the encoders have their own kernels."""


def kernels(log: str) -> dict[str, list[str]]:
    """Kernels of each encoder of the log, by its last start there."""
    matches = filter(None, map(STARTED.search, log.splitlines()))
    return {line["model"]: line["kernels"].strip('"').split(", ") for line in matches}


def plain(chosen: list[str]) -> list[str]:
    """An encoder's choices that are plain torch although it has its own kernel."""
    return [choice for choice in chosen if choice.startswith(("plain steps", *(f"{step} plain" for step in OWN)))]


@dataclass(frozen=True)
class Deployed:
    """A planned server on the machine that serves it. `address` is where this computer reaches it."""

    server: ServerSlice
    machine: Machine
    address: str

    @property
    def container(self) -> str:
        """The name of its container."""
        return f"triton-{self.server.name}"

    @property
    def unit(self) -> str:
        """The name of its unit."""
        return f"triton@{self.server.name}.service"

    @property
    def http(self) -> str:
        """Host and port for HTTP."""
        return f"{self.address}:{self.server.http_port}"

    @property
    def grpc(self) -> str:
        """Host and port for gRPC."""
        return f"{self.address}:{self.server.grpc_port}"

    def model(self, kind: str) -> ModelSlice:
        """The planned model of this kind; the first if there are several."""
        return next(model for model in self.server.models if model.kind == kind)

    def stop(self) -> None:
        """Waits until its unit has ended."""
        self.machine.run(f"systemctl stop {self.unit}")

    def start(self) -> None:
        """Starts its unit, until every model has answered."""
        self.machine.run(f"systemctl start {self.unit}", timeout=self.server.start_seconds + 180)

    def revive(self) -> bool:
        """Every model is ready, the LLM answers, the watchdog looks; True if it was started anew for that.

        What was cut off may have left a model unloaded, and an LLM that ran out of memory generates no more.
        """
        self.machine.run(f"systemctl start {self._timer}")
        names = [name for model in self.server.models for name in self._names(model)]
        if all(map(self._is_ready, names)) and self._generates():
            return False
        self.stop()
        self.start()
        return True

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """The watchdog does not look, which would take an unloaded model for a silent one."""
        self.machine.run(f"systemctl stop {self._timer} enginehouse-watch@{self.server.name}.service")
        try:
            yield
        finally:
            self.machine.run(f"systemctl start {self._timer}")

    def load(self, model: ModelSlice) -> None:
        """Every model of Triton's behind the planned one is loaded and ready."""
        for name in self._names(model):
            self._tell(f"/v2/repository/models/{name}/load")
            while not self._is_ready(name):
                time.sleep(POLL_SECONDS)

    def unload(self, model: ModelSlice) -> None:
        """The planned model is gone, its processes with it."""
        names = self._names(model)
        for name in reversed(names):
            self._tell(f"/v2/repository/models/{name}/unload")
        while any(entry["name"] in names and entry.get("state") in ("READY", "UNLOADING") for entry in self._index()):
            time.sleep(POLL_SECONDS)

    def metrics(self) -> dict[str, float]:
        """The newest value of every metric, by name and labels as the server writes them."""
        status, body = self._ask("/metrics", f"{self.address}:{self.server.metrics_port}")
        assert status == 200, f"/metrics answers {status}"
        pairs = [line.rsplit(" ", 1) for line in body.decode().splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in pairs}

    def cpu_seconds(self) -> float:
        """CPU time of all processes of the container since it started; 0 if its cgroup cannot be read."""
        words = self._cgroup("cpu.stat").split()
        return int(words[words.index("usage_usec") + 1]) / 1e6 if "usage_usec" in words else 0.0

    def identity(self) -> dict[str, str]:
        """Identity of container, unit and model processes: it changes when any of them starts again."""
        container = f"docker inspect --format '{{{{.Id}}}} {{{{.State.StartedAt}}}}' {self.container}"
        unit = f"systemctl show --property InvocationID,NRestarts {self.unit}"
        return {
            "container": self.machine.run(container).stdout.strip(),
            "unit": self.machine.run(unit).stdout.strip(),
            "processes": " ".join(sorted(self._cgroup("cgroup.procs").split())),
        }

    def now(self) -> str:
        """The machine's time, in the form that `complaints` takes."""
        return self.machine.run("date '+%Y-%m-%d %H:%M:%S'").stdout.strip()

    def complaints(self, since: str) -> list[str]:
        """Lines of its journal since then that tell of memory or a CUDA error."""
        query = f"journalctl --quiet --output cat --unit {self.unit} --since '{since}'"
        return self.machine.run(f"{query} | grep -Ei '{OUT_OF_MEMORY}'", check=False).stdout.splitlines()[:20]

    def kernels(self) -> dict[str, list[str]]:
        """Kernels of each encoder, as it logged when it was loaded last."""
        query = f"journalctl --quiet --output cat --unit {self.unit} --grep 'MiB held; '"
        return kernels(self.machine.run(query, check=False).stdout)

    @property
    def _timer(self) -> str:
        return f"enginehouse-watch@{self.server.name}.timer"

    def _is_ready(self, name: str) -> bool:
        """True if Triton's model of that name answers; False if nothing listens, too."""
        try:
            return self._ask(f"/v2/models/{name}/ready", self.http)[0] == 200
        except OSError:
            return False

    def _generates(self) -> bool:
        """True if the LLM gives a token."""
        question = {"text_input": "Paris", "sampling_param_max_tokens": 1, "streaming": True}
        path = f"/v2/models/{self.model('llm').name}/generate_stream"
        try:
            status, body = self._ask(path, self.http, question)
        except OSError:
            return False
        return status == 200 and b'"error"' not in body

    def _cgroup(self, file: str) -> str:
        """A file of the container's cgroup; empty if it cannot be read."""
        query = f"docker inspect --format '{{{{.State.Pid}}}}' {self.container}"
        path = f"/sys/fs/cgroup$(sed -n s/^0:://p /proc/$({query})/cgroup)/{file}"
        return self.machine.run(f"cat {path}", check=False).stdout

    def _names(self, model: ModelSlice) -> list[str]:
        """Triton's models behind a planned one, in load order."""
        return next(list(entry["loads"]) for entry in self._release()["models"] if entry["name"] == model.name)

    def _release(self) -> dict[str, Any]:
        """Record of the release that serves."""
        file = f"{places.server(self.server.name)}/current/server.json"
        return dict(json.loads(self.machine.run(f"cat {file}").stdout))

    def _index(self) -> list[dict[str, str]]:
        return list(json.loads(self._tell("/v2/repository/index")))

    def _tell(self, path: str) -> bytes:
        """The answer of a restricted endpoint, which takes the key of this start."""
        key = self.machine.run(f"cat {places.RUNTIME}/{self.container}/key").stdout.strip()
        headers = {self._release()["restricted_header"]: key}
        status, body = self._ask(path, self.http, {}, headers, self.server.start_seconds)
        assert status == 200, f"{path} answers {status}: {body.decode(errors='replace')[:2000]}"
        return body

    def _ask(
        self,
        path: str,
        place: str,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> tuple[int, bytes]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{place}{path}", data, headers or {})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=seconds) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except http.client.HTTPException as error:
            raise OSError(str(error) or type(error).__name__) from None
