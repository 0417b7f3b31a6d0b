"""Start lines of a model over several hosts under Open MPI: mpirun on the first host, its daemon on every other one.

Upstream's form is `mpirun … trtllm-llmapi-launch trtllm-serve MODEL …`, one rank a GPU (TensorRT-LLM's
examples/llm-api/llm_mgmn_trtllm_serve.sh and tensorrt_llm/llmapi/trtllm-llmapi-launch, read 2026-11-27). Where mpirun
would call ssh it calls files/launch/ranks.py (plm_rsh_agent of Open MPI 4.1), so that no host logs in to another one.
"""

from deploy.models.runtimes import OF_THE_RELEASE
from deploy.slices.group import GroupSlice

RANKS = "llm/ranks.py"
"""Path of files/launch/ranks.py inside the release."""
PYTHON = ("python3", "-B")
LAUNCH = "trtllm-llmapi-launch"
"""Program of the image that runs rank 0's command once and a worker for every other rank."""
STORE = 2
"""Index, among a group's ports, of the port where ranks find each other."""


def mpi_words(group: GroupSlice, program: tuple[str, ...], arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Words after PYTHON: on the first host, mpirun's and the program's words; on the others, a daemon's words."""
    store = (group.leader.address, str(group.port + STORE))
    if group.number:
        return (f"{OF_THE_RELEASE}/{RANKS}", "follow", *store, group.members[group.number].address)
    others = tuple(member.address for member in group.others)
    served = (*PYTHON, f"{OF_THE_RELEASE}/{RANKS}", "serve", *program, *arguments)
    return (
        f"{OF_THE_RELEASE}/{RANKS}",
        "lead",
        *store,
        *others,
        "--",
        "mpirun",
        *_mpirun(group),
        "--",
        LAUNCH,
        *served,
    )


def _mpirun(group: GroupSlice) -> tuple[str, ...]:
    """Options of mpirun: hosts in the order of their ranks, and one network for its own traffic and for the ranks'.

    mpirun starts every daemon itself, and daemons stay in the foreground of their containers. HPC-X's Open MPI would
    put a shell's words before the daemon's name (enable_orterun_prefix_by_default of its platform file), hence
    --noprefix. Ranks are not bound to cores: rank 0 shares its cores with the program that answers. `vader` would read
    the memory of other ranks directly, which a container without CAP_SYS_PTRACE may not. Over plain Ethernet UCX would
    look for InfiniBand first.
    """
    slots = len(group.ranks)
    hosts = ",".join(f"{member.address}:{slots}" for member in group.members)
    ethernet = {"pml": "ob1", "btl": "self,vader,tcp"} if group.fabric == "ethernet" else {}
    settings = {
        "plm_rsh_no_tree_spawn": "1",
        "oob_tcp_if_include": group.interface,
        "btl_tcp_if_include": group.interface,
        "btl_vader_single_copy_mechanism": "none",
        **ethernet,
    }
    return (
        *("--np", str(slots * len(group.members)), "--host", hosts, "--map-by", "slot", "--bind-to", "none"),
        *("--noprefix", "--leave-session-attached"),
        *(word for name, value in settings.items() for word in ("--mca", name, value)),
    )
