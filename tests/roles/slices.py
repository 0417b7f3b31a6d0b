"""Slices for role tests: one H100 host as in a plan, in which a test changes single fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deploy.slices.host import DriverSlice, ServerSlice, Slice
from deploy.slices.image import ImageSlice
from deploy.spec import Docker, Hub, Machine, Mirrors, Registry

IMAGE = ImageSlice(
    reference="nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3",
    digest="",
    triton_core="2.71.0",
    trtllm="1.2.1",
    cuda="13.1",
    repairs=(),
    size_mib=40_000,
)
SERVER = ServerSlice(
    name="main",
    gpus=(0,),
    devices=("nvidia.com/gpu=0",),
    http_port=8000,
    grpc_port=8001,
    metrics_port=8002,
    address="127.0.0.1",
    log_verbose=0,
    stop_seconds=90,
    start_seconds=1800,
    shm_mib=2048,
    image=IMAGE,
    models=(),
)


def a_slice(os: str = "debian-13", *, machine: dict[str, Any] | None = None, driver: dict[str, Any] | None = None,
            **changes: Any) -> Slice:  # fmt: skip
    """A host of one H100 80GB; `machine` and `driver` change single fields of these two, other arguments single
    fields of the slice."""
    source = "canonical" if os.startswith("ubuntu") else "nvidia"
    plain_driver = DriverSlice(
        manage=True, source=source, branch="580", version="", floor="580.65.06", fabric_manager=False
    )
    whole = Slice(
        host="host",
        machine=Machine(**{"os": os, "gpu": "h100-80", **(machine or {})}),
        pci_id="10de:2330",
        sm="90",
        gpu_mib=81_559,
        driver=replace(plain_driver, **(driver or {})),
        docker=Docker(),
        toolkit_version="1.20.0-1",
        registry=Registry(),
        hub=Hub(),
        mirrors=Mirrors(),
        image=IMAGE,
        weights=(),
        servers=(SERVER,),
        disk_needed_mib=100_000,
    )
    return replace(whole, **changes)
