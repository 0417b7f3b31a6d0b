"""The stand-ins on a machine: installed by apt, used like a provisioner uses the real ones, without roles.

One sequence of steps (old driver, new user space, new module, engine, toolkit, image, Triton) records its results, and
each test checks one. The machine has its own number beside another running rehearsal.
"""

from __future__ import annotations

import json
import queue
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
import tritonclient.grpc as grpc
from tritonclient.utils import np_to_triton_dtype

from rehearsal import machines, requirements
from rehearsal.hardware import h100
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places
from rehearsal.services import Services, services_down, services_up

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("numbers-8-and-9")]

PLACES = Places(REPOSITORY / ".rehearsal" / "number-8", 8)
ASK_DRIVER = "nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader,nounits"
ASK_CUDA = """python3 -c 'import ctypes; print(ctypes.CDLL("libcuda.so.1").cuInit(0))'"""
RELOAD = """
systemctl stop nvidia-persistenced
modprobe -r nvidia-uvm && modprobe -r nvidia && modprobe nvidia && modprobe nvidia-uvm
"""
SOURCES = """
deb [signed-by=/etc/apt/keyrings/r.asc] {url}/compute/cuda/repos/debian13/x86_64/ /
deb [signed-by=/etc/apt/keyrings/r.asc] {url}/linux/debian trixie stable
deb [signed-by=/etc/apt/keyrings/r.asc] {url}/libnvidia-container/stable/deb/$(ARCH) /
"""
MODEL_YAML = """
model: /srv/weights
backend: pytorch
max_seq_len: 2048
kv_cache_config: {max_tokens: 4096}
triton_config: {max_batch_size: 0, decoupled: true}
"""
PREPARE_REPOSITORY = """
mkdir -p /srv/models/llm /srv/newer/openai/types/responses /srv/weights
docker create --name from-image $IMAGE && docker cp from-image:/app/all_models/llmapi/tensorrt_llm/. /srv/models/llm
docker rm from-image
sed -i 's/"tensorrt_llm"/"llm"/; s/decoupled: False/decoupled: True/' /srv/models/llm/config.pbtxt
touch /srv/newer/openai/__init__.py
echo 'class PartReasoningText: ...' > /srv/newer/openai/types/responses/response_content_part_added_event.py
for file in config.json tokenizer.json model.safetensors.index.json model-0000{1,2}-of-00002.safetensors; do
    curl -sSfL -H "Authorization: Bearer $TOKEN" -o /srv/weights/$file $HUB/rehearsal/gpt-oss-tiny/resolve/main/$file
done
"""
RUN = """docker run --name NAME --device nvidia.com/gpu=all --user 1000 --read-only --tmpfs /tmp \
-p 8000:8000 -p 8001:8001 -v /srv:/srv:ro -e LLM_CONFIG_PATH=/srv/model.yaml $IMAGE \
tritonserver --model-repository=/srv/models"""
# All that the toolkit gives a container, but the node is a mount: no device rule comes with it.
WITHOUT_RULES = """docker create --entrypoint bash -v /dev/nvidiactl:/dev/nvidiactl -v /dev/nvidia0:/dev/nvidia0 \
-v /run/rehearsal-gpu-carried:/run/rehearsal-gpu -v /usr/bin/nvidia-smi:/usr/bin/nvidia-smi \
-v /usr/lib/x86_64-linux-gnu/libcuda.so.1:/usr/lib/x86_64-linux-gnu/libcuda.so.1"""
FIRST_READY = (
    "for i in $(seq 60); do curl -sf localhost:8000/v2/health/ready && exit 0; sleep 0.5; done; docker logs llm; exit 1"
)


@dataclass
class Journey:
    """A machine, and its recorded results by name."""

    machine: Machine
    served: Services
    seen: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)

    def do(self, command: str, sight: str = "") -> None:
        """Runs a command; without a name for its result it must succeed."""
        variables = f"IMAGE={self.image} HUB={self.served.hub_url} TOKEN={self.served.hub_token}\n"
        self.machine.put("/root/variables", variables, 0o600)
        self.machine.put("/root/step", f". /root/variables\n{command}\n", 0o700)
        ran = self.machine.run("bash -o pipefail -e /root/step 2>&1", check=not sight)
        if sight:
            self.seen[sight] = ran

    @property
    def image(self) -> str:
        return f"{self.served.image.rsplit(':', 1)[0]}@{self.served.image_digest}"

    def output_of(self, sight: str) -> str:
        return self.seen[sight].stdout.strip()


@pytest.fixture(scope="module")
def journey() -> Iterator[Journey]:
    if lacking := requirements.missing(PLACES):
        pytest.skip(requirements.explain(lacking))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_REHEARSAL_NUMBER", "8")
        machines.down(PLACES)
        bare = machines.up(["s13"], "13", h100(nouveau=False), PLACES)[0]
        made = Journey(bare, services_up())
        _drive(made)
        _serve(made)
        yield made
        services_down()
        machines.down(PLACES)


def _drive(made: Journey) -> None:
    made.machine.put("/etc/apt/keyrings/r.asc", made.served.apt_key_file.read_text())
    made.machine.put("/etc/apt/sources.list.d/r.list", SOURCES.format(url=made.served.apt_url))
    made.do("apt-get -q update && apt-get install -qy nvidia-driver-pinning-580 python3 curl")
    made.do("apt-get install -qy nvidia-kernel-open-dkms=580.95.05-1 firmware-nvidia-gsp=580.95.05-1", "no headers")
    made.do("apt-get install -qy linux-headers-$(uname -r) && dpkg --configure -a")
    made.do(
        "apt-get install -qy --no-install-recommends nvidia-{driver-cuda,persistenced}=580.95.05-1 libcuda1=580.95.05-1"
    )
    made.do("nvidia-smi", "not loaded")
    made.do("modprobe nvidia && modprobe nvidia-uvm")
    made.do(ASK_DRIVER, "loaded")
    made.do(
        "systemctl restart nvidia-persistenced && nvidia-smi --query-gpu=persistence_mode --format=csv,noheader", "mode"
    )
    made.do("apt-get -qy upgrade")
    made.do("nvidia-smi", "mismatch")
    made.do(ASK_CUDA, "mismatch in CUDA")
    made.do(RELOAD)
    made.do(ASK_DRIVER, "reloaded")


def _serve(made: Journey) -> None:
    made.do("apt-get install -qy --no-install-recommends docker-ce docker-ce-cli containerd.io")
    made.do("apt-get install -qy nvidia-container-toolkit && nvidia-ctk cdi list 2>/dev/null", "cdi")
    certificates = f"/etc/docker/certs.d/{made.served.registry_host}/ca.crt"
    made.machine.put(certificates, made.served.registry_ca_file.read_text())
    made.machine.put("/etc/docker/daemon.json", '{"features": {"cdi": true}}')
    made.machine.put("/root/key", made.served.ngc_key, 0o600)
    made.do("systemctl restart docker")
    made.do("docker pull -q $IMAGE", "pull without login")
    made.do(f"docker login -u '$oauthtoken' --password-stdin {made.served.registry_host} < /root/key")
    made.do("docker pull -q $IMAGE", "pull")
    made.do("docker run --rm --device nvidia.com/gpu=all --entrypoint nvidia-smi $IMAGE -L", "smi in a container")
    made.do(
        f"docker run --rm --device nvidia.com/gpu=all --entrypoint bash $IMAGE -c {_quoted(ASK_CUDA)}",
        "CUDA in a container",
    )
    for program in ("nvidia-smi", ASK_CUDA):
        # Read from Docker's log: a client that attaches can miss what a container says that ends at once.
        run = f"id=$({WITHOUT_RULES} $IMAGE -c {_quoted(program)}) && docker start $id >/dev/null"
        made.do(
            f"{run} && code=$(docker wait $id); docker logs $id; docker rm $id >/dev/null; exit $code",
            f"{program} without device rules",
        )
    made.do(PREPARE_REPOSITORY)
    made.machine.put("/srv/model.yaml", MODEL_YAML)
    made.do(RUN.replace("NAME", "broken --rm"), "openai too old")
    made.do("sed -i '1i import sys; sys.path.insert(0, \"/srv/newer\")' /srv/models/llm/1/model.py")
    made.do(RUN.replace("NAME", "llm --detach"))
    made.do(FIRST_READY)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def generate(made: Journey, **inputs: object) -> tuple[int, dict[str, object]]:
    """Asks from the outer machine, like a client."""
    url = f"http://{made.machine.address}:8000/v2/models/llm/generate"
    request = urllib.request.Request(url, json.dumps(inputs).encode())
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def stream(made: Journey) -> list[str]:
    """Returns texts of a long answer's events as they arrive."""
    answers: queue.Queue[grpc.InferResult | None] = queue.Queue()
    with grpc.InferenceServerClient(f"{made.machine.address}:8001") as client:
        client.start_stream(lambda result, error: answers.put(result if error is None else None))
        client.async_stream_infer("llm", _inputs(streaming=True, length=8), enable_empty_final_response=True)
        texts: list[str] = []
        while result := answers.get(timeout=300):
            if result.get_response().outputs:
                texts.append(result.as_numpy("text_output")[0].decode())
            if result.get_response().parameters["triton_final_response"].bool_param:
                break
        client.stop_stream(cancel_requests=True)
    return texts


def _inputs(streaming: bool, length: int) -> list[grpc.InferInput]:
    values = {
        "text_input": np.array(["one two"], dtype=np.object_),
        "streaming": np.array([streaming]),
        "sampling_param_max_tokens": np.array([length], dtype=np.int32),
        "sampling_param_exclude_input_from_output": np.array([True]),
    }
    tensors = []
    for name, value in values.items():
        tensors.append(grpc.InferInput(name, list(value.shape), np_to_triton_dtype(value.dtype)))
        tensors[-1].set_data_from_numpy(value)
    return tensors


def test_the_module_is_not_built_without_headers(journey: Journey) -> None:
    assert (
        "Your kernel headers for kernel" in journey.output_of("no headers")
        and journey.seen["no headers"].returncode == 100
    )


def test_nvidia_smi_ends_with_9_while_no_module_is_loaded(journey: Journey) -> None:
    assert journey.seen["not loaded"].returncode == 9
    assert journey.output_of("not loaded").startswith(
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    )


def test_a_loaded_module_shows_the_card(journey: Journey) -> None:
    assert journey.output_of("loaded") == "NVIDIA H100 80GB HBM3, 580.95.05, 81559, 9.0"


def test_persistenced_runs_without_persistence_mode(journey: Journey) -> None:
    assert journey.output_of("mode") == "Disabled"


def test_newer_user_space_over_an_older_module_is_a_mismatch(journey: Journey) -> None:
    wanted = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.178"
    assert (journey.seen["mismatch"].returncode, journey.output_of("mismatch")) == (18, wanted)


def test_cuda_answers_a_mismatch_with_803(journey: Journey) -> None:
    assert journey.output_of("mismatch in CUDA") == "803"


def test_a_reload_makes_it_one_version_again_within_the_pinned_branch(journey: Journey) -> None:
    assert journey.output_of("reloaded") == "NVIDIA H100 80GB HBM3, 580.178.04, 81559, 9.0"


def test_the_toolkit_names_the_device_docker_is_given(journey: Journey) -> None:
    assert "nvidia.com/gpu=all" in journey.output_of("cdi").splitlines()


def test_the_registry_gives_nothing_without_login(journey: Journey) -> None:
    assert journey.seen["pull without login"].returncode == 1


def test_docker_pulls_the_image_by_its_digest(journey: Journey) -> None:
    assert journey.output_of("pull").endswith(journey.served.image_digest)


def test_a_container_sees_the_card(journey: Journey) -> None:
    assert journey.output_of("smi in a container").startswith("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-")


def test_a_cuda_call_inside_the_image_succeeds(journey: Journey) -> None:
    assert journey.output_of("CUDA in a container") == "0"


def test_a_container_without_device_rules_gets_the_real_card_s_error(journey: Journey) -> None:
    """Observed with a unit whose rules lacked it (H100, 580.159.04). 304 is cuda.h's code for a refused system call."""
    ran = journey.seen["nvidia-smi without device rules"]
    assert (ran.returncode, ran.stdout.strip()) == (255, "Failed to initialize NVML: Unknown Error")
    assert journey.output_of(f"{ASK_CUDA} without device rules") == "304"


def test_the_llm_does_not_load_with_the_openai_of_the_image(journey: Journey) -> None:
    assert "cannot import name 'PartReasoningText'" in journey.output_of("openai too old")


def test_triton_serves_with_the_stand_in_driver_injected(journey: Journey) -> None:
    status, answer = generate(journey, text_input="brave new world", sampling_param_max_tokens=10)
    assert (status, answer["text_output"]) == (200, "brave new world brave new")


def test_a_bad_request_gets_an_error_and_the_next_one_an_answer(journey: Journey) -> None:
    bad, error = generate(journey, text_input="word", sampling_param_max_tokens=0)
    assert (bad, error["error"]) == (400, "Error generating request: require max_tokens >= 1, got max_tokens=0")
    assert generate(journey, text_input="word", sampling_param_max_tokens=1)[0] == 200


def test_a_streamed_answer_of_the_image_alone_comes_in_one_piece(journey: Journey) -> None:
    """Upstream has the same fault: `streaming` is passed as `lora_request`. The release's own code corrects the
    fault."""
    assert stream(journey) == [" one two"]
