"""Judges the GPU of a container: whether its program needs one, whether it gets one, and in which form.

The same rules for `docker run`, a compose file and a pod; reading those is left to their own judges.
"""

import csv
import re
from collections.abc import Sequence

from deploy.catalog.containers import HIDDEN_GPUS, NEED_A_GPU, OTHER_HARDWARE, SERVES_ALONE
from deploy.linter.findings import Call, Judged
from deploy.linter.images import OF_LLM
from deploy.linter.mpi import ranks_of
from deploy.linter.options import Option
from deploy.linter.shells import SHELLS, calls_in
from deploy.linter.words import Word

CERTAIN, POSSIBLE = "certain", "possible"
HELP = ("--help", "-h", "--version")
TRTLLM_IMAGE = re.compile(r"nvidia/tritonserver:[^@]*-trtllm-|nvidia/tensorrt-llm/")
CDI = "nvidia.com/gpu="
GPU_FILE = re.compile(r"/dev/(?:nvidia|kfd|dri)")
"""A file of a GPU, NVIDIA's or AMD's."""
ALL = f"--device {CDI}all"


def need_of(image: str, call: Call | None, settings: Sequence[Word] = ()) -> tuple[str, str]:
    """A container's need of a GPU (`certain`, `possible` or none), and the program or image that needs it."""
    calls = calls_in(call) if call else ()
    if OTHER_HARDWARE.search(image) or any(word.text in HELP for inner in calls for word in inner.args):
        return "", ""
    names = [inner.program for inner in calls]
    needing = next((name for name in names if name in NEED_A_GPU or name.startswith("tensorrt_llm.commands.")), "")
    if needing:
        return CERTAIN, needing
    if "tritonserver" in names:
        words = [word.text for inner in calls for word in inner.args] + [word.text for word in settings]
        is_llm = TRTLLM_IMAGE.search(image) is not None or any(OF_LLM.search(word) for word in words)
        return (CERTAIN if is_llm else POSSIBLE), "tritonserver"
    if SERVES_ALONE.search(image) and (not names or names[0].startswith("-")):
        return CERTAIN, image
    if TRTLLM_IMAGE.search(image) and (not names or set(names) <= set(SHELLS)):
        return POSSIBLE, image
    return "", ""


def judge_absence(judged: Judged, need: tuple[str, str], *, seen: str, attempt: str) -> None:
    """Adds the finding that a container gets no GPU although it needs one."""
    certainty, program = need
    if certainty == CERTAIN:
        judged.add(
            "no-gpu",
            f"no GPU is given to the container, and {program} needs one",
            seen=seen,
            wanted="GPUs by CDI, by a reservation or by a resource limit",
            attempt=attempt,
        )
    elif certainty == POSSIBLE:
        judged.know(
            "no-gpu",
            "no GPU is given to the container: only models on a CPU load in it",
            seen=seen,
            wanted="GPUs, if a model is to run on one",
            attempt=attempt,
        )


def judge_hidden(judged: Judged, name: str, value: str, need: tuple[str, str], *, seen: str) -> bool:
    """Adds a finding for a variable that hides every GPU; True if it does."""
    hides = need[0] == CERTAIN and value.strip() in HIDDEN_GPUS.get(name, ())
    if hides:
        judged.add(
            "gpus-hidden",
            f"{name}={value} hides every GPU from {need[1]}",
            seen=seen,
            wanted=f"{name} left alone: the container sees the GPUs that it is given",
            attempt=f"remove {name}",
        )
    return hides


def judge_count(judged: Judged, gpus: int | None, call: Call | None, *, seen: str, attempt: str) -> None:
    """Adds the finding that a container gets fewer GPUs than it starts ranks, if both numbers are written out."""
    ranks = ranks_in(call) if call else 0
    if gpus is not None and 0 < gpus < ranks:
        judged.add(
            "fewer-gpus-than-ranks",
            f"{ranks} ranks are started on {gpus} GPU{'s' if gpus > 1 else ''}: each rank needs a GPU of its own",
            seen=seen,
            wanted=f"{ranks} GPUs",
            attempt=attempt.format(ranks=ranks),
        )


def ranks_in(call: Call) -> int:
    return max((ranks_of(inner) for inner in calls_in(call)), default=0)


def docker_gpus(options: Sequence[Option]) -> bool | None:
    """True if options of `docker run` give a GPU, False if none does, None if a variable may do so."""
    if any(is_gpu_option(option) for option in options):
        return True
    may = any(option.name.startswith(("$", '"$', "{{", "<", "`")) for option in options)
    return None if may else False


def is_gpu_option(option: Option) -> bool:
    """True if an option of `docker run` gives a GPU, or leaves the choice to a variable or a runtime."""
    if option.name in ("--gpus", "--runtime", "--hooks-dir"):
        return option.varies or option.value != "runc"
    if option.name == "--device":
        return option.varies or CDI in option.value or GPU_FILE.search(option.value) is not None or "=" in option.value
    if option.name in ("-e", "--env"):
        name, equals, value = option.value.partition("=")
        return bool(equals) and is_shown(name, value)
    return False


def is_shown(name: str, value: str) -> bool:
    """True if a variable names GPUs for NVIDIA's runtime, which may be Docker's default runtime."""
    return name == "NVIDIA_VISIBLE_DEVICES" and value.strip() not in HIDDEN_GPUS[name]


def docker_count(options: Sequence[Option]) -> int | None:
    """The number of GPUs that options of `docker run` give, if it is written out."""
    gpus = [option for option in options if option.name in ("--gpus", "--device") and is_gpu_option(option)]
    if not gpus or any(option.varies for option in gpus):
        return None
    counts = [_count_of(option) for option in gpus]
    return None if None in counts else sum(count for count in counts if count)


def _count_of(option: Option) -> int | None:
    if option.name == "--device":
        name = option.value.partition(CDI)[2]
        return 1 if name.isdecimal() or name.startswith("GPU-") else None
    if option.value.isdecimal():
        return int(option.value[:6])  # cut, because Python converts no very long number
    devices = _devices(option.value)
    return len(devices) or None


def _devices(value: str) -> list[str]:
    """The devices that `--gpus` names by number or UUID; `'"device=0,1"'` in CSV's own quotes."""
    match = re.fullmatch(r'"?device=([\w,:-]+)"?', value.strip("'"))
    return match[1].split(",") if match else []


def judge_gpus_option(judged: Judged, option: Option) -> list[str]:
    """The arguments to type for `--gpus`, after its finding was added."""
    value = option.value
    if option.varies:
        return list(option.raw)
    devices = _devices(value)
    by_cdi = [word for device in devices for word in ("--device", f"{CDI}{device}")]
    problem, wanted = _fault_of(value)
    if problem:
        words = by_cdi or ["--device", f"{CDI}0" if value == "0" else f"{CDI}all"]
        judged.add("gpu-form", problem, seen=" ".join(option.raw), wanted=wanted, attempt=" ".join(words))
        return words
    if value != "all" and not devices:
        return list(option.raw)
    words = by_cdi or ["--device", f"{CDI}all"]
    judged.know(
        "gpus-by-hook",
        "a container with `--gpus` loses its GPU at a `systemctl daemon-reload` or `docker update` before Docker 29.2",
        seen=" ".join(option.raw),
        wanted="devices named through CDI",
        attempt=" ".join(words),
    )
    return words


def _fault_of(value: str) -> tuple[str, str]:
    """The problem of a value of `--gpus` and the right form; two empty texts for a correct value."""
    try:
        (fields,) = list(csv.reader([value])) or [[]]
    except (csv.Error, ValueError):
        return "`--gpus` is read as CSV, and this value is not CSV", "all, a number, or '\"device=0,1\"'"
    keys = [field.partition("=")[0] if "=" in field else "count" for field in fields]
    bare = [field for field in fields if "=" not in field]
    if value == "0":
        return "`--gpus 0` asks for a count of no GPUs; it does not name GPU 0", "a device by its number"
    if "device" in keys and ("count" in keys or len(fields) != len(set(keys))):
        return (
            "a comma ends the list of devices: Docker reads the next number as a count, and refuses both together",
            "the devices in quotes of their own, or each by CDI",
        )
    if len(keys) != len(set(keys)):
        return "`--gpus` takes one count, and this gives two", "all, a number, or devices by their numbers"
    if not fields or any(not (field == "all" or re.fullmatch(r"-?\d+", field)) for field in bare):
        return f"`--gpus` does not take `{value}`", "all, a number, or device=NUMBER"
    unknown = [key for key in keys if key not in ("count", "device", "driver", "capabilities", "options")]
    if unknown:
        return f"`--gpus` has no key `{unknown[0]}`", "count, device, driver, capabilities or options"
    return "", ""
