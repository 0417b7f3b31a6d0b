"""Texts that start vLLM, with surrounding text: shells, a deployment, a compose file, options of `docker run`."""

from __future__ import annotations

SERVE = "vllm serve Qwen/Qwen3-8B --max-model-len 8192"
SHELLS = {
    "a shell of a pod": f"""kind: Deployment
spec:
  template:
    spec:
      containers:
      - image: vllm/vllm-openai:latest
        command: ["/bin/sh", "-c"]
        args: ["{SERVE}"]
""",
    "a shell in one list": f"""kind: Pod
spec:
  containers:
  - image: own/image:1
    command: ["bash", "-c", "{SERVE}"]
""",
    "a script of a pod": f"""kind: Pod
spec:
  containers:
  - image: vllm/vllm-openai:latest
    command: [bash, -lc]
    args:
    - |
      ulimit -n 65536
      exec {SERVE} \\
        --port 8000
""",
    "a shell of docker run": f'docker run --entrypoint /bin/bash vllm/vllm-openai -c "{SERVE}"',
    "a shell of an own image": f"docker run own/image:1 sh -c '{SERVE}'",
    "a here-document": f"cat > start.sh <<'EOF'\n#!/bin/bash\n{SERVE}\nEOF\nbash start.sh\n",
    "a manifest in a here-document": "kubectl apply -f - <<EOF\nkind: Pod\nspec:\n  containers:\n"
    "  - image: vllm/vllm-openai:latest\n    args: [--model, Qwen/Qwen3-8B, --max-model-len, '8192']\nEOF\n",
    "a command over ssh": f"ssh gpu 'nohup {SERVE} > log 2>&1 &'",
    "a terminal that stays": f"tmux new-session -d -s v '{SERVE}'",
    "variables of the script": "M=Qwen/Qwen3-8B\nexport LEN=8192\nvllm serve ${M} --max-model-len $LEN",
    "a variable with a default": "vllm serve Qwen/Qwen3-8B --max-model-len ${LEN:-8192}",
    "variables of a service": "services:\n  v:\n    image: vllm/vllm-openai\n    environment: {M: Qwen/Qwen3-8B}\n"
    "    command: --model $M --max-model-len 8192\n",
    "a unit of systemd": f"[Service]\nExecStart=/opt/venv/bin/{SERVE}\n",
    "an environment of uv": f"uv run {SERVE}",
    "a stateful set": "kind: StatefulSet\nspec:\n  template: {spec: {containers: [{image: 'vllm/vllm-openai:v1', "
    "args: [Qwen/Qwen3-8B, --max-model-len=8192]}]}}\n",
}
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 3
  strategy: {type: Recreate}
  template:
    spec:
      nodeSelector: {gpu: h100}
      volumes:
      - {name: cache, persistentVolumeClaim: {claimName: c}}
      - {name: weights, hostPath: {path: /srv/weights}}
      containers:
      - name: llm
        image: vllm/vllm-openai:v0.11.0
        imagePullPolicy: Always
        args: [--model, /models/tuned, --tensor-parallel-size, "2", --served-model-name, tuned]
        env:
        - {name: VLLM_LOGGING_LEVEL, value: INFO}
        - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hub, key: token}}}
        envFrom: [{secretRef: {name: more}}]
        ports: [{containerPort: 8000}]
        resources:
          limits: {cpu: "8", memory: 64Gi, nvidia.com/gpu: 4}
        readinessProbe: {httpGet: {path: /health, port: 8000}}
        volumeMounts:
        - {name: cache, mountPath: /root/.cache/huggingface}
        - {name: weights, mountPath: /models}
      - name: sidecar
        image: nginx
"""
COMPOSE = """services:
  llm:
    image: vllm/vllm-openai:v0.11.0
    container_name: llm
    command: ["--model", "Qwen/Qwen3-8B", "-tp", "2"]
    ports: ["9001:8000", "9100:9100"]
    environment:
    - HF_TOKEN=hf_abcdefghijk
    - VLLM_USE_V1=1
    - NCCL_DEBUG
    volumes: ["~/.cache/huggingface:/root/.cache/huggingface", "./lora:/lora"]
    ipc: host
    env_file: .env
    healthcheck: {test: [CMD, curl, localhost:8000/health]}
    depends_on: [db]
    deploy:
      resources:
        reservations:
          devices: [{driver: nvidia, device_ids: ["2", "3"], capabilities: [gpu]}]
  db:
    image: postgres
"""
OPTIONS = (
    *("--gpus all", "-p 8084:8000", "-e VLLM_USE_V1=1", "-v /data:/data2", "--ipc=host", "--shm-size 2g", "--rm"),
    *("--name v", "--restart always", "--network host", "--ulimit memlock=-1", "--env-file .env", "-d", "-it"),
    *("--sysctl a=b", "--device /dev/infiniband", "--device nvidia.com/gpu=1", "--gpus 2", "-u 1000", "--tmpfs /x"),
)
