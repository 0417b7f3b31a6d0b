"""A server that `deploy.py` has deployed: its address, its restricted endpoints, and its identity.

An operator with the key could send the same requests (unload, load), which leave the release unchanged.
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
    """Returns the kernels of each encoder in the log's last start."""
    matches = filter(None, map(STARTED.search, log.splitlines()))
    return {line["model"]: line["kernels"].strip('"').split(", ") for line in matches}


def plain(chosen: list[str]) -> list[str]:
    """Returns an encoder's choices that are plain torch although it has its own kernel."""
    return [choice for choice in chosen if choice.startswith(("plain steps", *(f"{step} plain" for step in OWN)))]


@dataclass(frozen=True)
class Deployed:
    """A planned server on the machine that serves it. `address` is its address for this computer."""

    server: ServerSlice
    machine: Machine
    address: str

    @property
    def container(self) -> str:
        return f"triton-{self.server.name}"

    @property
    def unit(self) -> str:
        return f"triton@{self.server.name}.service"

    @property
    def http(self) -> str:
        return f"{self.address}:{self.server.http_port}"

    @property
    def grpc(self) -> str:
        return f"{self.address}:{self.server.grpc_port}"

    def model(self, kind: str) -> ModelSlice:
        """Returns the planned model of this kind; the first if there are several."""
        return next(model for model in self.server.models if model.kind == kind)

    def stop(self) -> None:
        """Stops the server's unit and waits for the end."""
        self.machine.run(f"systemctl stop {self.unit}")

    def start(self) -> None:
        """Starts the server's unit and waits until every model has answered."""
        self.machine.run(f"systemctl start {self.unit}", timeout=self.server.start_seconds + 180)

    def revive(self) -> bool:
        """Waits until every model and the LLM answer and the watchdog runs; returns True if this took a restart.

        An interrupted step may have left a model unloaded, and an LLM that ran out of memory generates no more.
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
        """Stops the watchdog during the block, since it would restart the server for an unloaded model."""
        self.machine.run(f"systemctl stop {self._timer} enginehouse-watch@{self.server.name}.service")
        try:
            yield
        finally:
            self.machine.run(f"systemctl start {self._timer}")

    def load(self, model: ModelSlice) -> None:
        """Loads every model of Triton's behind the planned one and waits until they are ready."""
        for name in self._names(model):
            self._tell(f"/v2/repository/models/{name}/load")
            while not self._is_ready(name):
                time.sleep(POLL_SECONDS)

    def unload(self, model: ModelSlice) -> None:
        """Unloads the planned model and waits for the end of its processes."""
        names = self._names(model)
        for name in reversed(names):
            self._tell(f"/v2/repository/models/{name}/unload")
        while any(entry["name"] in names and entry.get("state") in ("READY", "UNLOADING") for entry in self._index()):
            time.sleep(POLL_SECONDS)

    def metrics(self) -> dict[str, float]:
        """Returns the newest value of every metric, by the server's name and labels."""
        status, body = self._ask("/metrics", f"{self.address}:{self.server.metrics_port}")
        assert status == 200, f"/metrics answers {status}"
        pairs = [line.rsplit(" ", 1) for line in body.decode().splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in pairs}

    def cpu_seconds(self) -> float:
        """Returns CPU time of all processes of the container since it started; 0 if its cgroup cannot be read."""
        words = self._cgroup("cpu.stat").split()
        return int(words[words.index("usage_usec") + 1]) / 1e6 if "usage_usec" in words else 0.0

    def identity(self) -> dict[str, str]:
        """Returns the identity of container, unit and model processes, which changes with each of their starts."""
        container = f"docker inspect --format '{{{{.Id}}}} {{{{.State.StartedAt}}}}' {self.container}"
        unit = f"systemctl show --property InvocationID,NRestarts {self.unit}"
        return {
            "container": self.machine.run(container).stdout.strip(),
            "unit": self.machine.run(unit).stdout.strip(),
            "processes": " ".join(sorted(self._cgroup("cgroup.procs").split())),
        }

    def now(self) -> str:
        """Returns the machine's time, in the form that `complaints` takes."""
        return self.machine.run("date '+%Y-%m-%d %H:%M:%S'").stdout.strip()

    def complaints(self, since: str) -> list[str]:
        """Returns lines of the server's journal since that time about memory or a CUDA error."""
        query = f"journalctl --quiet --output cat --unit {self.unit} --since '{since}'"
        return self.machine.run(f"{query} | grep -Ei '{OUT_OF_MEMORY}'", check=False).stdout.splitlines()[:20]

    def kernels(self) -> dict[str, list[str]]:
        """Returns the kernels of each encoder, logged at its last load."""
        query = f"journalctl --quiet --output cat --unit {self.unit} --grep 'MiB held; '"
        return kernels(self.machine.run(query, check=False).stdout)

    @property
    def _timer(self) -> str:
        return f"enginehouse-watch@{self.server.name}.timer"

    def _is_ready(self, name: str) -> bool:
        """Returns True if Triton's model of that name answers; False also if no server listens."""
        try:
            return self._ask(f"/v2/models/{name}/ready", self.http)[0] == 200
        except OSError:
            return False

    def _generates(self) -> bool:
        """Returns True if the LLM gives a token."""
        question = {"text_input": "Paris", "sampling_param_max_tokens": 1, "streaming": True}
        path = f"/v2/models/{self.model('llm').name}/generate_stream"
        try:
            status, body = self._ask(path, self.http, question)
        except OSError:
            return False
        return status == 200 and b'"error"' not in body

    def _cgroup(self, file: str) -> str:
        """Returns a file of the container's cgroup; empty if it cannot be read."""
        query = f"docker inspect --format '{{{{.State.Pid}}}}' {self.container}"
        path = f"/sys/fs/cgroup$(sed -n s/^0:://p /proc/$({query})/cgroup)/{file}"
        return self.machine.run(f"cat {path}", check=False).stdout

    def _names(self, model: ModelSlice) -> list[str]:
        """Returns Triton's models behind a planned one, in load order."""
        return next(list(entry["loads"]) for entry in self._release()["models"] if entry["name"] == model.name)

    def _release(self) -> dict[str, Any]:
        """Returns the record of the serving release."""
        file = f"{places.server(self.server.name)}/current/server.json"
        return dict(json.loads(self.machine.run(f"cat {file}").stdout))

    def _index(self) -> list[dict[str, str]]:
        return list(json.loads(self._tell("/v2/repository/index")))

    def _tell(self, path: str) -> bytes:
        """Returns the answer of a restricted endpoint, which takes the key of this start."""
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
