"""Pasted containers: GPUs, variables, limits and ports of `docker run`, compose files and pods; `mpirun`; parameters.

One table, longer than 300 lines, because broken files side by side are easier to compare than in ten files.
"""

from __future__ import annotations

from tests.unit.pasted_case import Case

IMAGE = "nvcr.io/nvidia/tritonserver:25.10-trtllm-python-py3"
SERVER = f"{IMAGE} tritonserver --model-repository=/m"
RUN = "docker run --rm --shm-size 2g"


def service(*lines: str) -> str:
    """A compose file with a server and these lines of its service."""
    rows = [f"    image: {IMAGE}", "    command: tritonserver --model-repository=/m", "    shm_size: 2g"]
    return "\n".join(["services:", "  triton:", *rows, *(f"    {line}" for line in lines)]) + "\n"


def reserved(*lines: str) -> str:
    """A compose file whose service reserves a device with these keys."""
    rows = ["deploy:", "  resources:", "    reservations:", "      devices:"]
    return service(*rows, f"      - {lines[0]}", *(f"        {line}" for line in lines[1:]))


def pod(*lines: str) -> str:
    """A pod with a server, /dev/shm and these lines of its container."""
    rows = [
        "apiVersion: v1",
        "kind: Pod",
        "spec:",
        "  volumes: [{name: shm, emptyDir: {medium: Memory}}]",
        "  containers:",
        "  - name: triton",
        f"    image: {IMAGE}",
        '    args: ["tritonserver", "--model-repository=/m"]',
        "    volumeMounts: [{name: shm, mountPath: /dev/shm}]",
    ]
    return "\n".join([*rows, *(f"    {line}" for line in lines)]) + "\n"


LIMIT = "resources: {limits: {nvidia.com/gpu: 1}}"
GPUS = "gpus: all"

DOCKER = {
    "a server without a gpu": Case(f"{RUN} {SERVER}", ("no-gpu",)),
    "a build without a gpu": Case(f"{RUN} {IMAGE} trtllm-build --checkpoint_dir c --output_dir e", ("no-gpu",)),
    "a program that needs no gpu is given none": Case(f"{RUN} {IMAGE} ls /app"),
    "a question for help needs no gpu": Case(f"{RUN} {IMAGE} trtllm-build --help"),
    "a shell without a gpu is worth knowing": Case(f"docker run -it --rm {IMAGE} bash"),
    "a count of no gpus": Case(f"{RUN} --gpus 0 {SERVER}", ("gpu-form",)),
    "devices with a comma lose their quotes": Case(f"{RUN} --gpus device=0,1 {SERVER}", ("gpu-form",)),
    "devices with a comma in double quotes lose them to the shell": Case(
        f'{RUN} --gpus "device=0,1" {SERVER}', ("gpu-form",)
    ),
    "devices in quotes of their own are right": Case(f"{RUN} --gpus '\"device=0,1\"' {SERVER}"),
    "a word that is no gpu": Case(f"{RUN} --gpus true {SERVER}", ("gpu-form",)),
    "two counts of gpus": Case(f"{RUN} --gpus 0,1 {SERVER}", ("gpu-form",)),
    "gpus by cdi are right": Case(f"{RUN} --device nvidia.com/gpu=all {SERVER}"),
    "gpus by the runtime are right": Case(f"{RUN} --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0 {SERVER}"),
    "a variable may hold the gpu": Case(f"docker run $GPU_OPTIONS --shm-size 2g {SERVER}"),
    "a variable hides the gpus": Case(f"{RUN} --gpus all -e NVIDIA_VISIBLE_DEVICES=none {SERVER}", ("gpus-hidden",)),
    "four ranks on a single gpu": Case(
        f"{RUN} --device nvidia.com/gpu=0 {IMAGE} mpirun -n 4 tritonserver --model-repository=/m",
        ("fewer-gpus-than-ranks",),
    ),
    "a limit by a wrong name": Case(f"{RUN} --gpus all --ulimit memlok=-1 {SERVER}", ("ulimit",)),
    "a limit without a number": Case(f"{RUN} --gpus all --ulimit stack=64m {SERVER}", ("ulimit",)),
    "a soft limit above the hard one": Case(f"{RUN} --gpus all --ulimit nofile=4096:1024 {SERVER}", ("ulimit",)),
    "limits as nvidia prints them are right": Case(
        f"docker run --gpus all --ipc=host --ulimit memlock=-1 --ulimit stack=67108864 {SERVER}"
    ),
    "shared memory without a unit": Case(f"docker run --gpus all --shm-size 2 {SERVER}", ("shared-memory-size",)),
    "shared memory that is no size": Case(f"docker run --gpus all --shm-size=big {SERVER}", ("shared-memory-size",)),
    "a port above all ports": Case(f"{RUN} --gpus all -p 80000:8000 {SERVER}", ("no-port",)),
    "a range of ports is right": Case(f"{RUN} --gpus all -p 127.0.0.1:8000-8002:8000-8002 {SERVER}"),
    "a port on which nothing listens is worth knowing": Case(f"{RUN} --gpus all -p 9000:9000 {SERVER}"),
    "ports on the network of the host are worth knowing": Case(f"{RUN} --gpus all --network host -p 80:8000 {SERVER}"),
    "podman takes the same words": Case(f"podman run --shm-size 2g {SERVER}", ("no-gpu",)),
    "an image of another server needs a gpu too": Case(
        "docker run -p 8000:8000 vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B", ("no-gpu",)
    ),
    "an image for a cpu needs none": Case(
        "docker run -p 8080:80 ghcr.io/huggingface/text-embeddings-inference:cpu-1.8 --model-id BAAI/bge-m3"
    ),
    "all models and some of them": Case(
        "tritonserver --model-repository=/m --model-control-mode=explicit --load-model=* --load-model=tensorrt_llm",
        ("load-all-and-some",),
    ),
}

COMPOSE = {
    "a service without a gpu": Case(service(), ("no-gpu",)),
    "a service with every gpu": Case(service(GPUS)),
    "a service with a reservation": Case(reserved("driver: nvidia", "count: all", "capabilities: [gpu]")),
    "a service with gpus by cdi": Case(service("devices:", '- "nvidia.com/gpu=all"')),
    "a service with the runtime": Case(service("runtime: nvidia")),
    "a reservation without capabilities": Case(reserved("driver: nvidia", "count: 1"), ("gpu-form",)),
    "a reservation with count and names": Case(
        reserved("driver: nvidia", "count: 1", 'device_ids: ["0"]', "capabilities: [gpu]"), ("gpu-form",)
    ),
    "a reservation with names as numbers": Case(
        reserved("driver: nvidia", "device_ids: [0, 1]", "capabilities: [gpu]"), ("gpu-form",)
    ),
    "a reservation with capabilities as a text": Case(reserved("driver: nvidia", "capabilities: gpu"), ("gpu-form",)),
    "a reservation of no gpus": Case(reserved("driver: nvidia", "count: 0", "capabilities: [gpu]"), ("gpu-form",)),
    "devices among the limits": Case(
        service("deploy:", "  resources:", "    limits:", "      memory: 8g", "      devices: [{capabilities: [gpu]}]"),
        ("gpu-misplaced",),
    ),
    "devices below resources": Case(
        service("deploy:", "  resources:", "    devices: [{capabilities: [gpu]}]"), ("gpu-misplaced",)
    ),
    "a number of gpus in short form": Case(service("gpus: 1"), ("gpu-form",)),
    "a server of two ranks on a gpu": Case(
        reserved("driver: nvidia", "count: 1", "capabilities: [gpu]").replace(
            "tritonserver --", "mpirun -n 2 tritonserver --"
        ),
        ("fewer-gpus-than-ranks",),
    ),
    "a secret in the environment of a service": Case(
        service(GPUS, "environment:", "  NGC_API_KEY: nvapi-0123456789", "  LOG: info"), ("secret-in-words",)
    ),
    "a secret in a list of variables": Case(
        service(GPUS, "environment:", "- HF_TOKEN=hf_abcdefghijk", "- LOG=info"), ("secret-in-words",)
    ),
    "a secret as the default of a variable": Case(
        service(GPUS, "environment:", "  HF_TOKEN: ${HF_TOKEN:-hf_abcdefghijk}"), ("secret-in-words",)
    ),
    "a secret by its name is right": Case(service(GPUS, "environment:", "- HF_TOKEN", "- NGC_API_KEY=${NGC_API_KEY}")),
    "variables of guides in a service": Case(service(GPUS, "environment:", "  GPT_GPU_FRACTION: 0.8"), ("guide-name",)),
    "a setting of a service with a slip": Case(service(GPUS, "enviroment:", "- LOG=info"), ("unknown-setting",)),
    "a setting that compose has nowhere": Case(service(GPUS, "resources:", "  gpus: 1"), ("unknown-setting",)),
    "ports that two services publish": Case(
        service(GPUS, 'ports: ["8000:8000"]') + '  web:\n    image: nginx\n    ports: ["8000:80"]\n', ("same-port",)
    ),
    "a service that publishes no port": Case(service(GPUS, 'ports: ["8000:http"]'), ("no-port",)),
    "limits of a service": Case(service(GPUS, "ulimits:", "  memlock: -1", "  stak: 67108864"), ("ulimit",)),
    "shared memory of a service": Case(service(GPUS).replace("shm_size: 2g", "shm_size: 16"), ("shared-memory-size",)),
    "a service is asked for its health": Case(
        service(GPUS, "healthcheck:", '  test: ["CMD", "curl", "-f", "http://localhost:8000/health"]'),
        ("no-such-endpoint",),
    ),
    "a file with a tab": Case("services:\n  triton:\n\timage: x\n", ("unreadable",)),
}

PODS = {
    "a pod without a gpu": Case(pod(), ("no-gpu",)),
    "a pod with a gpu": Case(pod(LIMIT)),
    "a gpu that is only requested": Case(pod("resources: {requests: {nvidia.com/gpu: 1}}"), ("gpu-form",)),
    "a request that is not the limit": Case(
        pod("resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}"), ("gpu-form",)
    ),
    "half a gpu": Case(pod('resources: {limits: {nvidia.com/gpu: "0.5"}}'), ("gpu-form",)),
    "a gpu by a wrong name": Case(pod("resources: {limits: {nvidia.com/gpus: 1}}"), ("gpu-form",)),
    "a gpu beside the limits": Case(pod("resources: {nvidia.com/gpu: 1}"), ("gpu-form",)),
    "a slice of a gpu is right": Case(pod("resources: {limits: {nvidia.com/mig-3g.40gb: 1}}")),
    "a secret in a pod": Case(
        pod(LIMIT, "env:", "- name: NGC_API_KEY", "  value: nvapi-0123456789"), ("secret-in-words",)
    ),
    "a secret by reference is right": Case(
        pod(LIMIT, "env:", "- name: HF_TOKEN", "  valueFrom: {secretKeyRef: {name: hub, key: token}}")
    ),
    "variables as a mapping": Case(pod(LIMIT, "env: {LOG: info}"), ("no-list",)),
    "a variable that is a number": Case(pod(LIMIT, "env:", "- name: PORT", "  value: 8000"), ("text-wanted",)),
    "a command as a text": Case(
        pod(LIMIT).replace(
            'args: ["tritonserver", "--model-repository=/m"]', "args: tritonserver --model-repository=/m"
        ),
        ("no-list",),
    ),
    "a number among the words": Case(
        pod(LIMIT).replace('"--model-repository=/m"', '"--model-repository=/m", "--http-port", 8000'), ("text-wanted",)
    ),
    "a port in quotes": Case(pod(LIMIT, 'ports: [{containerPort: "8000"}]'), ("no-port",)),
    "a probe of another server": Case(
        pod(LIMIT, "readinessProbe: {httpGet: {path: /health, port: 8000}}"), ("no-such-endpoint",)
    ),
    "a probe of a port on which nothing listens": Case(
        pod(LIMIT, "livenessProbe: {httpGet: {path: /v2/health/live, port: 8080}}"), ("silent-port",)
    ),
    "a deployment in a template": Case(
        "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n"
        "      - name: {{ .Chart.Name }}\n        {{- if .Values.gpu }}\n"
        '        image: "{{ .Values.image }}"\n        {{- end }}\n'
        '        command: ["trtllm-build", "--checkpoint_dir", "{{ .Values.c }}"]\n',
        ("no-gpu",),
    ),
    "a manifest in a here-document": Case(
        "kubectl apply -f - <<EOF\n" + pod() + "EOF\ncurl localhost:8000/v2/health/ready\n", ("no-gpu",)
    ),
    "a configuration in a here-document": Case(
        'cat > config.pbtxt <<EOF\nname: "m"\nbackend: "python"\nmax_batch_sise: 0\nEOF\n', ("unknown-field",)
    ),
}

PROGRAM = "-n 1 tritonserver --model-repository=/m"
RANKS = {
    "a program for each rank": Case(
        f"mpirun --allow-run-as-root {PROGRAM} --backend-config=python,shm-region-prefix-name=prefix0_ : "
        f"{PROGRAM} --model-control-mode=explicit --load-model=tensorrt_llm"
    ),
    "a program for each rank as the launch script writes them": Case(
        f"mpirun --allow-run-as-root {PROGRAM} --grpc-port=8001 : {PROGRAM} --grpc-port=8001 :"
    ),
    "builds side by side": Case("mpirun -n 1 trtllm-build --checkpoint_dir a : -n 1 trtllm-build --checkpoint_dir b"),
    "a fault in the second program": Case(
        f"mpirun --allow-run-as-root {PROGRAM} : -n 1 tritonserver --model-repo=/m", ("unknown-option",)
    ),
    "ranks are counted over all programs": Case(
        "mpirun -n 1 trtllm-serve m --tp_size 4 : -n 1 trtllm-serve m --tp_size 4", ("ranks-do-not-match",)
    ),
    "ranks in a container": Case(
        f"{RUN} --device nvidia.com/gpu=all {IMAGE} mpirun --allow-run-as-root {PROGRAM} : {PROGRAM}"
    ),
}

PARAMETERS = {
    "arguments of the build among the parameters": Case(
        'name: "tensorrt_llm"\nbackend: "tensorrtllm"\nmax_batch_size: 8\n'
        'parameters { key: "gpt_model_type" value: { string_value: "inflight_fused_batching" } }\n'
        'parameters { key: "gpt_model_path" value: { string_value: "/e" } }\n'
        + "".join(
            f'parameters {{ key: "{key}" value: {{ string_value: "8" }} }}\n'
            for key in (
                *("max_input_len", "max_output_len", "max_num_tokens", "max_seq_len", "tp_size", "dtype"),
                *("kv_cache_dtype", "paged_kv_cache"),
            )
        ),
        ("build-argument",) * 8,
        "24.12",
    ),
}

UNREAD = {
    "a build of a release nobody read": Case(
        "trtllm-build --checkpoint_dir c --tp_size 4 --pp_size 4 --max_output_len 8", (), "24.06"
    ),
    "an image of a release nobody read": Case(
        "docker run --gpus all nvcr.io/nvidia/tritonserver:23.12-trtllm-python-py3 trtllm-build --model_dir m"
    ),
    "an image newer than the catalog": Case("docker pull nvcr.io/nvidia/tritonserver:27.03-py3"),
    "an image older than tensorrt-llm": Case(
        "docker pull nvcr.io/nvidia/tritonserver:22.12-trtllm-python-py3", ("no-such-image",)
    ),
}

NEAR = {
    "a compose file that begins with its name": Case(f"name: llm\n{service()}", ("no-gpu",)),
    "a ci job is no configuration of a model": Case("name: build\non: push\njobs:\n  a:\n    steps: [{run: make}]\n"),
    "a script is told by its first line and is no path": Case("#!/bin/bash\nset -e\nmake all\n"),
    "values of a chart are no container": Case(
        "image: a/b:1\nreplicaCount: 1\nservice: {port: 80}\nenv: {A: b}\nresources: {}\n"
    ),
    "a runtime of kserve gets its gpu elsewhere": Case(
        f"kind: ServingRuntime\nspec:\n  containers:\n  - name: k\n    image: {IMAGE}\n    command: [tritonserver]\n"
        "    args: [--model-repository=/mnt/models]\n"
    ),
    "a health path of nim is none of triton": Case("curl http://llm-nim-svc:8000/v1/health/ready"),
    "a path of openai is no path of triton on another port": Case("curl http://127.0.0.1:8080/v1/chat/completions"),
    "a service that extends another publishes its own port once": Case(
        f"services:\n  base:\n    image: {IMAGE}\n    command: tritonserver --model-repository=/m\n    gpus: all\n"
        "    shm_size: 2g\n  triton:\n    extends: base\n    ports: ['8000:8000']\n"
    ),
    "a volume without its option": Case(
        f"docker run --rm --gpus all /models:/models {IMAGE} ls /models", ("volume-without-option",)
    ),
    "a port of two protocols is published twice": Case(
        "services:\n  proxy:\n    image: caddy:2\n    ports: ['443:443/tcp', '443:443/udp']\n"
    ),
    "a size that the python backend does not read": Case(
        "tritonserver --model-repository=/m --backend-config=python,shm-size=1g", ("unknown-key",)
    ),
    "a size of the python backend in bytes": Case(
        "tritonserver --model-repository=/m --backend-config=python,shm-default-byte-size=64m", ("value-not-offered",)
    ),
    "ranks of several hosts are not counted on a host": Case(
        pod(LIMIT).replace(
            '"tritonserver", "--model-repository=/m"', '"trtllm-serve", "m", "--tp_size", "2", "--nnodes=2"'
        )
    ),
}

AROUND = NEAR | DOCKER | COMPOSE | PODS | RANKS | PARAMETERS | UNREAD
