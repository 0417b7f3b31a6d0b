#!/bin/bash
# Runs vllm 0.26.0 for the LLM `mixtral-8x22b` in the foreground; llm@main.service starts this file through the
# server's `current` link. Rendered with the release, so that going back to a release brings its own line back.
set -euo pipefail
release=$(dirname "$(dirname "$(readlink -f "$0")")")

# Kernels compiled by this release are kept across restarts, and never read by another one, nor by Triton's container.
cache=/var/lib/enginehouse/cache/$(basename "$release").llm
install -d -m 0700 -o 61140 -g 61140 "$cache"

# limit NAME FLAG WANTED: `NAME=` what is wanted, or the most this machine lets root have.
limit() {
  local most=$3
  (ulimit "$2" "$3") 2>/dev/null || most=$(ulimit -H "$2")
  if [ "$most" = unlimited ]; then echo "$1=-1"; elif [ "$1" = memlock ]; then echo "$1=$((most * 1024))"; else echo "$1=$most"; fi
}

options=(
  --rm --name llm-main --pull never
  --label enginehouse.llm=main --label enginehouse.release="$(basename "$release")"
  # A user without rights, on a read-only file system, without capabilities and without a way out to the network.
  --user 61140:61140 --read-only --cap-drop ALL --security-opt no-new-privileges
  --tmpfs /tmp:rw,exec,nosuid,nodev,size=4096m --pids-limit 16384 --shm-size 4096m
  --ulimit "$(limit memlock -l unlimited)" --ulimit "$(limit nofile -n 1048576)" --ulimit stack=67108864
  # A core would hold prompts and answers.
  --ulimit core=0
  # Ranks reach each other at ports that they choose: the host's network, which the firewall keeps to these hosts.
  --network host
  --device /dev/infiniband
  --device nvidia.com/gpu=0
  --device nvidia.com/gpu=1
  --device nvidia.com/gpu=2
  --device nvidia.com/gpu=3
  --mount type=bind,source="$release/llm",target="$release/llm",readonly
  --mount type=bind,source=/var/lib/enginehouse/weights/mixtral-8x22b/cccccccccccccccccccccccccccccccccccccccc,target=/var/lib/enginehouse/weights/mixtral-8x22b/cccccccccccccccccccccccccccccccccccccccc,readonly
  --mount type=bind,source="$release/passwd",target=/etc/passwd,readonly
  --mount type=bind,source="$cache",target=/var/cache/enginehouse
  --env CUDA_CACHE_PATH=/var/cache/enginehouse/cuda
  --env DO_NOT_TRACK=1
  --env FLASHINFER_WORKSPACE_BASE=/var/cache/enginehouse
  --env GLOO_SOCKET_IFNAME=ib0
  --env HF_HOME=/var/cache/enginehouse/huggingface
  --env HF_HUB_DISABLE_TELEMETRY=1
  --env HF_HUB_OFFLINE=1
  --env HOME=/var/cache/enginehouse
  --env NCCL_SOCKET_IFNAME==ib0
  --env PYTHONDONTWRITEBYTECODE=1
  --env TORCHINDUCTOR_CACHE_DIR=/var/cache/enginehouse/inductor
  --env TRANSFORMERS_OFFLINE=1
  --env TRITON_CACHE_DIR=/var/cache/enginehouse/triton
  --env USER=triton-server
  --env VLLM_CACHE_ROOT=/var/cache/enginehouse/vllm
  --env VLLM_CONFIG_ROOT=/var/cache/enginehouse/config
  --env VLLM_HOST_IP=10.0.8.2
  --env VLLM_NO_USAGE_STATS=1
  --env XDG_CACHE_HOME=/var/cache/enginehouse
  --stop-timeout 100
  --log-driver none
  --entrypoint vllm
)
# Starts once all hosts of the group are there, and ends with the first one that is lost.
exec python3 -B /usr/local/lib/enginehouse/host group main -- docker run \
  "${options[@]}" vllm/vllm-openai:v0.26.0 serve \
  /var/lib/enginehouse/weights/mixtral-8x22b/cccccccccccccccccccccccccccccccccccccccc \
  --served-model-name mixtral-8x22b \
  --host 127.0.0.1 \
  --port 8010 \
  --tensor-parallel-size 4 \
  --pipeline-parallel-size 2 \
  --enable-expert-parallel \
  --max-model-len 8192 \
  --max-num-seqs 64 \
  --max-num-batched-tokens 8192 \
  --kv-cache-dtype auto \
  --kv-cache-memory-bytes 43910168576 \
  --gpu-memory-utilization 0.96 \
  --enable-prefix-caching \
  --load-format safetensors \
  --generation-config vllm \
  --enable-prompt-tokens-details \
  --no-enable-log-requests \
  --disable-uvicorn-access-log \
  --disable-fastapi-docs \
  --shutdown-timeout 90 \
  --distributed-executor-backend mp \
  --nnodes 2 \
  --node-rank 1 \
  --master-addr 10.0.8.1 \
  --master-port 29502 \
  --headless
