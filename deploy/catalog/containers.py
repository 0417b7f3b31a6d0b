"""Names that Docker, Compose and Kubernetes take for a container, and the programs and images that need a GPU.

Sources: compose-spec/compose-go schema/compose-spec.json and validation/validation.go, docker/cli opts/gpus.go,
moby/moby daemon (nvidia_linux.go: a count and device names exclude each other), docker/go-units ulimit.go; stored
copies read 2026-11-27. Kubernetes' page on GPUs is the source for extended resources among the limits, in whole
numbers, and for texts in lists of arguments and in variables.
"""

import re


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SERVICE_KEYS = _names(
    """
    annotations attach blkio_config build cap_add cap_drop cgroup cgroup_parent command configs container_name
    cpu_count cpu_percent cpu_period cpu_quota cpu_rt_period cpu_rt_runtime cpu_shares cpus cpuset credential_spec
    depends_on deploy develop device_cgroup_rules devices dns dns_opt dns_search domainname entrypoint env_file
    environment expose extends external_links extra_hosts gpus group_add healthcheck hostname image init ipc
    isolation label_file labels links logging mac_address mem_limit mem_reservation mem_swappiness memswap_limit
    models network_mode networks oom_kill_disable oom_score_adj pid pids_limit platform ports post_start pre_start
    pre_stop privileged profiles provider pull_policy pull_refresh_after read_only restart runtime scale secrets
    security_opt shm_size stdin_open stop_grace_period stop_signal storage_opt sysctls tmpfs tty ulimits
    use_api_socket user userns_mode uts volumes volumes_from working_dir
    """
)
CONTAINER_KEYS = _names(
    """
    args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy
    resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath
    terminationMessagePolicy tty volumeDevices volumeMounts workingDir
    """
)
ULIMITS = _names(
    """
    core cpu data fsize locks memlock msgqueue nice nofile nproc rss rtprio rttime sigpending stack
    """
)
NEED_A_GPU = _names(
    """
    trtllm-build trtllm-serve trtllm-bench quantize.py launch_triton_server.py nvidia-smi vllm sglang
    vllm.entrypoints.openai.api_server sglang.launch_server text-generation-launcher
    """
)
"""Programs that are useless without a GPU."""
SERVES_ALONE = re.compile(
    r"(?:^|/)(?:vllm/vllm-openai|huggingface/text-generation-inference|huggingface/text-embeddings-inference)(?:[:@]|$)"
    r"|(?:^|/)nvcr\.io/nim/|^nvcr\.io/nim/"
)
"""Images whose default command is a server on a GPU."""
OTHER_HARDWARE = re.compile(
    r"(?:^|[-_:./])(?:cpu|rocm|amd|xpu|hpu|gaudi|tpu|neuron|intel|npu|ascend)(?:[-_:./\d]|$)", re.I
)
HIDDEN_GPUS = {"NVIDIA_VISIBLE_DEVICES": ("void", "none", ""), "CUDA_VISIBLE_DEVICES": ("", "-1", "none", "NoDevFiles")}
"""Variables that hide every GPU, and the values that do so."""
