"""Several GPUs of one host for one network: a process per GPU with a part of every layer (rehearsal stand-in).

The first process serves. It starts the others, which end with it:

    python -m tensorrt_llm.network RANK FOLDER
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

# They use the loopback and the cards' own links, without multicast, which belongs to the owner of the host.
ENVIRONMENT = {
    "GLOO_SOCKET_IFNAME": "lo",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_NVLS_ENABLE": "0",
    "NVSHMEM_DISABLE_NVLS": "1",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
}
os.environ |= ENVIRONMENT
TIMEOUT = timedelta(minutes=5)


class Ranks:
    """The processes of a network, including this one; one GPU needs only this one."""

    def __init__(self, count, arguments, number=0, folder=None):
        self.count, self.number, self._others, self._folder = count, number, [], folder
        on_cards = torch.cuda.is_available()
        if on_cards and torch.cuda.device_count() < count:
            raise RuntimeError(f"Only {torch.cuda.device_count()} GPUs are available, but {count} are required.")
        self.device = torch.device("cuda", number) if on_cards else torch.device("cpu")
        if count == 1:
            return
        if number == 0:
            self._folder = tempfile.mkdtemp(prefix="ranks-")
            Path(self._folder, "arguments.json").write_text(json.dumps(arguments))
            self._others = [_start(rank, self._folder) for rank in range(1, count)]
        if on_cards:
            torch.cuda.set_device(self.device)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if on_cards else "gloo",
            init_method=f"file://{self._folder}/store", rank=number, world_size=count, timeout=TIMEOUT,
        )  # fmt: skip

    def join(self, model):
        """Sums the outputs of layers with distributed inputs over the ranks from now on."""
        if self.count == 1:
            return
        model._device_mesh = dist.init_device_mesh(self.device.type, (self.count,), mesh_dim_names=("tp",))
        # Prevents transformers from splitting the heads of the cache again: this network has only this rank's heads.
        model._tp_plan = {}
        for name, module in model.named_modules():
            if name.endswith(("o_proj", "down_proj")):
                module.register_forward_hook(_added_up)

    def end(self):
        """Ends the other processes."""
        for process in self._others:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self.count > 1:
            dist.destroy_process_group()
        if self._others:
            shutil.rmtree(self._folder)


def _added_up(_module, _inputs, output):
    dist.all_reduce(output)
    return output


def _start(number, folder):
    """Starts a process by the Python version's name, since `sys.executable` in Triton's stub comes from PATH."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = sys.executable if Path(sys.executable or "-").name.startswith("python") else None
    python = own or shutil.which(version) or "python3"
    places = os.pathsep.join(place or os.getcwd() for place in sys.path)
    command = [python, "-m", "tensorrt_llm.network", str(number), folder]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": places})
