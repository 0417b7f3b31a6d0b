"""An LLM on its planned server, with all values that its checks need, so that each is worked out only once."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.catalog import GPU
from deploy.models.budget import is_compiled
from deploy.models.resolve import Layout, Served, gpu_of, image_of, layout_of, release_row
from deploy.models.runtimes import path_of
from deploy.refusals import Refusal, model_at, refuse
from deploy.spec import LLM, Host, Server


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A model on its server. `path` is the model's backend, empty without one; `gpu` is None for an unknown card,
    `trtllm` empty for an unknown version."""

    host: Host
    server: Server
    served: Served
    model: LLM
    layout: Layout
    gpu: GPU | None
    trtllm: str
    path: str

    @classmethod
    def of(cls, host: Host, server: Server, served: Served, model: LLM) -> Placed:
        """The LLM with its host, server and path, as the checks of a model need them."""
        row = release_row(host.release)
        trtllm = image_of(host, row).trtllm if row else ""
        chosen = path_of(model, served.architecture, trtllm).path
        return cls(
            host=host,
            server=server,
            served=served,
            model=model,
            layout=layout_of(server, model),
            gpu=gpu_of(host, server),
            trtllm=trtllm,
            path=chosen or ("engine" if is_compiled(served, trtllm) else ""),
        )

    @property
    def is_engine(self) -> bool:
        return self.path == "engine"

    @property
    def release(self) -> str:
        """The release's name with its TensorRT-LLM."""
        name = self.host.release if isinstance(self.host.release, str) else self.host.release.name
        return f"release {name} with TensorRT-LLM {self.trtllm or '(none)'}"

    def no(self, kind: str, problem: str, field: str, *, seen: str, wanted: str, attempt: str) -> Refusal:
        """The refusal of one field of this model; the problem starts with the model's name."""
        place = model_at(self.server.name, self.model.name, *field.split("."))
        return refuse(kind, f"{self.model.name}: {problem}", where=place, seen=seen, wanted=wanted, attempt=attempt)
