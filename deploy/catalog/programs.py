"""Option names of the programs around TensorRT-LLM, for reading a command line: existing names, and which take a value.

Sources: `tritonserver --help` of NVIDIA's pytriton 0.7.0 wheel and triton-inference-server/server
src/command_line_parser.cc at r26.07; NVIDIA/TensorRT-LLM tensorrt_llm/commands/serve.py at 00209af149; `docker run
--help` of Docker 29; `hf download --help` of huggingface_hub 1.x; read 2026-11-20. A name that is not here may still
exist: only a near miss of a name in these tables counts as wrong.
"""

from functools import lru_cache

from deploy.catalog.versions import at_least

_WANT = True
_ALONE = False


def _options(values: str, switches: str) -> dict[str, bool]:
    return dict.fromkeys(values.split(), _WANT) | dict.fromkeys(switches.split(), _ALONE)


TRITONSERVER = _options(
    """
    --model-repository --model-store --model-control-mode --load-model --repository-poll-secs --model-namespacing
    --model-load-thread-count --model-load-retry-count --model-load-gpu-limit --model-config-name --exit-on-error
    --exit-timeout-secs --strict-readiness --strict-model-config --id
    --allow-http --http-port --http-address --http-thread-count --http-max-input-size --http-restricted-api
    --http-header-forward-pattern --reuse-http-port
    --allow-grpc --grpc-port --grpc-address --grpc-restricted-protocol --grpc-header-forward-pattern --reuse-grpc-port
    --grpc-infer-thread-count --grpc-infer-allocation-pool-size --grpc-infer-response-compression-level --grpc-use-ssl
    --grpc-use-ssl-mutual --grpc-server-cert --grpc-server-key --grpc-root-cert --grpc-keepalive-time
    --grpc-keepalive-timeout --grpc-keepalive-permit-without-calls --grpc-http2-max-pings-without-data
    --grpc-http2-min-recv-ping-interval-without-data --grpc-http2-max-ping-strikes --grpc-max-connection-age
    --grpc-max-connection-age-grace
    --allow-metrics --allow-gpu-metrics --allow-cpu-metrics --metrics-port --metrics-address --metrics-interval-ms
    --metrics-config --log-verbose --log-info --log-warning --log-error --log-format --log-file --trace-config
    --trace-file --trace-level --trace-rate --trace-count --trace-log-frequency
    --backend-config --backend-directory --repoagent-directory --cache-config --cache-directory
    --response-cache-byte-size --rate-limit --rate-limit-resource --pinned-memory-pool-byte-size
    --cuda-memory-pool-byte-size --cuda-virtual-address-size --buffer-manager-thread-count --host-policy
    --min-supported-compute-capability --enable-peer-access --allow-client-shm
    --allow-sagemaker --sagemaker-port --sagemaker-safe-port-range --sagemaker-thread-count
    --allow-vertex-ai --vertex-ai-port --vertex-ai-thread-count --vertex-ai-default-model
    """,
    "--disable-auto-complete-config --help",
)
TRITONSERVER_CHOICES = {
    "--model-control-mode": ("none", "poll", "explicit"),
    "--log-format": ("default", "ISO8601"),
    "--rate-limit": ("execution_count", "off"),
}
TRITONSERVER_NUMBERS = (
    *("--http-port", "--grpc-port", "--metrics-port", "--http-thread-count", "--model-load-thread-count"),
    *("--model-load-retry-count", "--exit-timeout-secs", "--repository-poll-secs", "--log-verbose"),
    *("--buffer-manager-thread-count", "--pinned-memory-pool-byte-size", "--grpc-infer-thread-count"),
)
TRITONSERVER_DEPRECATED = {
    "--trace-file": "--trace-config triton,file=…",
    "--trace-level": "--trace-config level=…",
    "--trace-rate": "--trace-config rate=…",
    "--trace-count": "--trace-config count=…",
    "--trace-log-frequency": "--trace-config triton,log-frequency=…",
    "--strict-model-config": "--disable-auto-complete-config",
}
_SERVER_SINCE = {"--allow-client-shm": "26.04"}

TRTLLM_SERVE = _options(
    """
    --tokenizer --custom_tokenizer --revision --chat_template --host --port --backend --max_batch_size --max_num_tokens
    --max_seq_len --max_beam_width --tp_size --pp_size --cp_size --ep_size --cluster_size --gpus_per_node
    --kv_cache_free_gpu_memory_fraction --free_gpu_memory_fraction --config --extra_llm_api_options --reasoning_parser
    --tool_parser --num_postprocess_workers --otlp_traces_endpoint --log_level
    """,
    "--trust_remote_code --enable_chunked_prefill --fail_fast_on_attention_window_too_large --help",
)

DOCKER_RUN = _options(
    """
    --add-host --annotation -a --attach --blkio-weight --blkio-weight-device --cap-add --cap-drop --cgroup-parent
    --cgroupns --cidfile --cpu-period --cpu-quota --cpu-rt-period --cpu-rt-runtime -c --cpu-shares --cpus
    --cpuset-cpus --cpuset-mems --detach-keys --device --device-cgroup-rule --device-read-bps --device-read-iops
    --device-write-bps --device-write-iops --dns --dns-option --dns-search --domainname --entrypoint -e --env --env-file
    --expose --gpus --group-add --health-cmd --health-interval --health-retries --health-start-interval
    --health-start-period --health-timeout -h --hostname --ip --ip6 --ipc --isolation --kernel-memory -l --label
    --label-file --link --link-local-ip --log-driver --log-opt --mac-address -m --memory --memory-reservation
    --memory-swap --memory-swappiness --mount --name --net --network --network-alias --oom-score-adj --pid --pids-limit
    --platform -p --publish --pull --restart --runtime --security-opt --shm-size --stop-signal --stop-timeout
    --storage-opt --sysctl --tmpfs --ulimit -u --user --userns --uts -v --volume --volume-driver --volumes-from
    -w --workdir
    """,
    """
    -d --detach --disable-content-trust --help --init -i --interactive --no-healthcheck --oom-kill-disable --privileged
    -P --publish-all -q --quiet --read-only --rm --sig-proxy -t --tty --use-api-socket
    """,
)
DOCKER_EXEC = _options(
    "--detach-keys -e --env --env-file -u --user -w --workdir", "-d --detach -i --interactive --privileged -t --tty"
)
DOCKER_LOGIN = _options("-u --username -p --password", "--password-stdin")
DOCKER_PULL = _options("--platform", "-q --quiet -a --all-tags --disable-content-trust")
DOCKER_BUILD = _options(
    "-t --tag -f --file --build-arg --secret --target --platform --progress --ssh --label --network --cache-from "
    "--cache-to --output -o --build-context --add-host --builder --iidfile --shm-size",
    "--no-cache --pull --push --load -q --quiet",
)

HF_DOWNLOAD = _options(
    "--repo-type --type --revision --include --exclude --cache-dir --local-dir --token --max-workers --format",
    "--force-download --no-force-download --quiet -q --dry-run --no-dry-run --json --no-truncate --help -h",
)
HF_GONE = {
    "--local-dir-use-symlinks": "files always land in --local-dir itself; links are no longer made",
    "--resume-download": "downloads always resume",
}
HF_VERBS = {"login": "auth login", "logout": "auth logout", "whoami": "auth whoami", "scan-cache": "cache ls"}

GENAI_PERF_ENDPOINTS = (
    *("chat", "completions", "embeddings", "rankings", "generate", "kserve", "template", "dynamic_grpc"),
    "tensorrtllm_engine",
)

CURL = _options(
    """
    -X --request -d --data --data-raw --data-binary --data-urlencode --json -H --header -o --output -u --user
    -m --max-time --connect-timeout -w --write-out -A --user-agent -b --cookie -F --form -T --upload-file --retry
    --retry-delay --retry-max-time -x --proxy --cacert --cert --key -E --unix-socket --resolve -e --referer -c
    --cookie-jar --url --limit-rate -r --range
    """,
    """
    -s --silent -S --show-error -f --fail --fail-with-body -L --location -k --insecure -v --verbose -i --include -I
    --head -N --no-buffer -G --get -O -J -g --globoff --compressed -4 -6 --retry-connrefused -# --http1.1 --http2
    """,
)


@lru_cache(maxsize=16)
def server_options(release: str) -> dict[str, bool]:
    return {
        name: wants
        for name, wants in TRITONSERVER.items()
        if not release or name not in _SERVER_SINCE or at_least(release, _SERVER_SINCE[name])
    }


def since(option: str) -> str:
    return _SERVER_SINCE.get(option, "")
