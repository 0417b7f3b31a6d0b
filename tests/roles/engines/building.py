"""A host for builds: the real programs, a Docker that runs the stand-ins directly, a one-line nvidia-smi.

`docker run` of this Docker keeps the working directory, the environment and the command; its calls are recorded in
`calls`. The image is the upper layer of the rehearsal image, unpacked.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal import checkpoints, triton_image, triton_root
from roles._shipping.programs import SOURCE

FINGERPRINT = "0123456789abcdef"
PART = "openai/types/responses/response_content_part_added_event.py"

DOCKER = """\
#!/bin/bash
here={here}
echo "$@" >>$here/calls
case $1 in
  ps) for left in $here/containers/*; do [ -e "$left" ] && kill -0 "$(cat "$left")" && basename "$left"; done; exit 0 ;;
  rm) kill -9 "$(cat $here/containers/${{@: -1}})"; rm -f $here/containers/${{@: -1}}; exit 0 ;;
  image) echo "nvcr.io/nvidia/tritonserver@sha256:feed"; exit 0 ;;
  inspect) echo "/triton-main"; exit 0 ;;
esac
while [ $# -gt 0 ]; do
  case $1 in
    run | --rm | --read-only) shift ;;
    --name) name=$2; shift 2 ;;
    --workdir) cd "$2"; shift 2 ;;
    --env) export "$2"; shift 2 ;;
    --*) shift 2 ;;
    *) shift; break ;;
  esac
done
echo $$ >$here/containers/$name
export PYTHONPATH=${{PYTHONPATH:+$PYTHONPATH:}}$here/image/{site} PYTHONDONTWRITEBYTECODE=1
words=()
for word in "$@"; do
  case $word in
    python3) words+=({python}) ;;
    trtllm-build) words+=({python} $here/image/usr/local/bin/trtllm-build) ;;
    /app/*) words+=("$here/image$word") ;;
    *) words+=("$word") ;;
  esac
done
exec "${{words[@]}}"
"""

NVIDIA_SMI = """\
#!/bin/bash
case "$*" in
  *compute-apps*) cat {here}/apps ;;
  *memory.free*) cat {here}/gpus ;;
  *) echo "NVIDIA H100 80GB HBM3, 81559, 9.0" ;;
esac
"""


@dataclass(frozen=True)
class Host:
    """A machine's directories, under `here`."""

    here: Path

    @classmethod
    def made(cls, here: Path) -> Host:
        """A host with Docker, one free H100, the image and a small Llama."""
        for name in ("bin", "containers", "root/engines", "image", f"repairs/{Path(PART).parent}"):
            (here / name).mkdir(parents=True)
        host, names = cls(here), {"here": here, "python": sys.executable, "site": triton_root.SITE}
        host.program("docker", DOCKER.format(**names))
        host.program("nvidia-smi", NVIDIA_SMI.format(**names))
        host.program("systemctl", "#!/bin/bash\necho inactive\n")
        host.gpus(free_mib=80000)
        (here / "apps").write_text("")
        (here / "repairs/openai/__init__.py").write_text("")
        (here / "repairs" / PART).write_text("class PartReasoningText: ...\n")
        with tarfile.open(fileobj=io.BytesIO(triton_image.stand_in_tar(triton_root.SITE))) as layer:
            layer.extractall(here / "image", filter="tar")
        host.llama("weights", rehearsal_build_seconds=0)
        return host

    def program(self, name: str, text: str) -> None:
        """Writes a program on the host's PATH."""
        (self.here / "bin" / name).write_text(text)
        (self.here / "bin" / name).chmod(0o755)

    def gpus(self, free_mib: int, sm: str = "9.0") -> None:
        """Sets the GPU that the host's nvidia-smi shows."""
        (self.here / "gpus").write_text(f"0, GPU-1, NVIDIA H100 80GB HBM3, 590.44.01, {sm}, {free_mib}\n")

    def llama(self, name: str, **keys: object) -> Path:
        """Published weights of a small Llama; `keys` are added to its config.json."""
        folder = self.here / name
        shutil.rmtree(folder, ignore_errors=True)
        checkpoints.llama(folder, [])
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | keys))
        return folder

    @property
    def path(self) -> Path:
        """The published engine's directory."""
        return self.here / "root/engines/llama" / FINGERPRINT

    @property
    def staging(self) -> Path:
        """The directory in which the engine is built."""
        return self.path.with_name(f".{FINGERPRINT}.staging")

    def why(self) -> dict[str, Any]:
        """The why.json of a failed build."""
        return dict(json.loads((self.path.with_name(f"{FINGERPRINT}.failed") / "why.json").read_text()))

    def record(self) -> dict[str, Any]:
        """engine.json of the published engine."""
        return dict(json.loads((self.path / "engine.json").read_text()))

    def calls(self) -> str:
        """The Docker commands that were run."""
        return (self.here / "calls").read_text()

    def step(self, *flags: str) -> dict[str, Any]:
        """The build step, with more flags."""
        argv = ["trtllm-build", "--checkpoint_dir", f"{self.staging}/checkpoint", "--output_dir"]
        return {"stage": "build", "argv": [*argv, f"{self.staging}/engine", "--max_batch_size", "8", *flags]}

    def settings(self, **changes: object) -> dict[str, Any]:
        """The role's settings for an FP8 engine of the small Llama."""
        convert = ["python3", "/app/examples/models/core/llama/convert_checkpoint.py", "--model_dir"]
        convert += [str(self.here / "weights"), "--output_dir", f"{self.staging}/checkpoint", "--use_fp8"]
        content: dict[str, Any] = {"model": "llama", "role": "target", "fingerprint": FINGERPRINT, "name": "llama-fp8"}
        content |= {"path": str(self.path), "staging": str(self.staging), "image": "nvcr.io/nvidia/tritonserver:26.07"}
        content |= {"devices": ["nvidia.com/gpu=0"], "fields": {"sm": "90"}, "flags_row": "row 1.2 (near-exact)"}
        content |= {
            "steps": [{"stage": "convert", "argv": convert}, self.step()],
            "mounts": [str(self.here / "weights")],
        }
        content |= {"scratch_mib": 10, "size_mib": 2, "gpu_mib": 1000, "shm_mib": 64, "world_size": 1, "servers": []}
        return content | {"python_path": str(self.here / "repairs"), "replay": None} | changes

    def replay(self, **changes: object) -> dict[str, Any]:
        """Two prompts to answer with the new engine."""
        prompts = self.here / "prompts.jsonl"
        prompts.write_text('{"prompt": "one two three"}\n{"prompt": "four five"}\n')
        content = {"prompts": str(prompts), "answers": "", "tasks": "", "max_tokens": 4, "tensor": 1, "pipeline": 1}
        return content | {"checkpoint": str(self.here / "weights")} | changes

    def help_of(self, *words: str) -> str:
        """The `--help` text of a program in the image."""
        (self.here / "work").mkdir(exist_ok=True)
        argv = ["docker", "run", "--name", "help", "--workdir", str(self.here / "work"), "--env"]
        argv += [f"PYTHONPATH={self.here}/repairs", "image", *words, "--help"]
        environment = self._environment()
        return subprocess.run(argv, env=environment, check=True, capture_output=True, text=True).stdout

    def build(self, **changes: object) -> subprocess.CompletedProcess[str]:
        """The build, run to its end."""
        return subprocess.run(self._argv(changes), env=self._environment(), capture_output=True, text=True, timeout=300)

    def start(self, **changes: object) -> subprocess.Popen[bytes]:
        """Starts a build without waiting for its end."""
        return subprocess.Popen(self._argv(changes), env=self._environment(), stdout=subprocess.DEVNULL)

    def _argv(self, changes: dict[str, object]) -> list[str]:
        (self.here / "settings.json").write_text(json.dumps(self.settings(**changes)))
        return [sys.executable, str(SOURCE), "build", str(self.here / "settings.json")]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NOTIFY"))}
        return kept | {"PATH": f"{self.here}/bin:{kept['PATH']}", "ENGINEHOUSE_ROOT": str(self.here / "root")}
