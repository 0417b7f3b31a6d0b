"""The serving image, built from the root of the machine it will run on: its Python, its torch, its compiler.

Its layers: the machine's own packages with what they depend on, the Python packages that serving imports, the real
Triton with the numpy its stub was built for, and the stand-ins of TensorRT-LLM with a real network behind them. If vLLM
was sent along, its packages are in a separate folder, and `vllm` is the real program. The build only copies files of
that machine; it installs and downloads none.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rehearsal import triton_image
from rehearsal.places import RehearsalRefused

DISTRIBUTIONS = ("torch", "triton", "transformers", "tokenizers", "safetensors", "pyyaml")
"""Packages that the container imports; their requirements come along, except numpy."""
SYSTEM = ("python3", "gcc", "g++", "libc6-dev", "ca-certificates", "curl", "bash", "zlib1g", "libstdc++6", "libgomp1")
"""Debian's and Ubuntu's names; the compiler is for kernels that are compiled at a model's load."""
MERGED = ("bin", "sbin", "lib", "lib64")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
BESIDE = ("etc/passwd", "etc/group", "etc/nsswitch.conf", "etc/ssl/certs", "etc/localtime", "etc/alternatives")
UNREAD = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/info/")
ASK = """
import importlib.metadata as m, json, re, sys, sysconfig
def closed(names):
    answer, left = {}, list(names)
    while left:
        name = re.sub(r"[-_.]+", "-", left.pop()).lower()
        if name in answer or name == "numpy":
            continue
        try:
            answer[name] = m.distribution(name)
        except m.PackageNotFoundError:
            continue  # required elsewhere, by another system or Python
        left += [re.match(r"[\\w.-]+", line)[0] for line in answer[name].requires or () if "extra ==" not in line]
    return answer
site = sysconfig.get_path("purelib")
# torch names its libraries as extras of another package: all that are there are taken.
libraries = [answer.name for answer in m.distributions() if (answer.name or "").lower().startswith("nvidia-")]
names = closed([*sys.argv[1:], *libraries])
files = [str(path) for answer in names.values() for path in answer.files or () if not str(path).startswith("..")]
print(json.dumps({"python": "%d.%d" % sys.version_info[:2], "site": site, "files": files,
                  "versions": {name: answer.version for name, answer in names.items()}}))
"""

VLLM_HOME = "/opt/vllm"
PROGRAMS = "usr/local/sbin"
"""Directory that precedes the stand-ins' directory in the image's PATH."""
VLLM = f"""#!/bin/sh
# vLLM's own program, with its packages before the image's; the sampler of FlashInfer wants a compiler for CUDA.
export PYTHONPATH={VLLM_HOME} VLLM_USE_FLASHINFER_SAMPLER=0
# NVLink multicast stays off: a rented host shares its switches with others.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export VLLM_ALLREDUCE_USE_SYMM_MEM=0 VLLM_FLASHINFER_ALLREDUCE_BACKEND=trtllm
exec /usr/bin/python3 {VLLM_HOME}/bin/vllm "$@"
"""
ASK_BESIDE = """
import importlib.metadata as m, json, re, sys, sysconfig
def name_of(text):
    return re.sub(r"[-_.]+", "-", text).lower()
def required(dist, extras):
    for line in dist.requires or ():
        wanted = re.search(r"extra == .([\\w.-]+).", line)
        if wanted is None or wanted[1] in extras:
            yield line
here, known = sysconfig.get_path("purelib"), {}
for dist in m.distributions(path=[here]):
    known.setdefault(name_of(dist.name), dist)
travelled = {name_of(dist.name): dist for dist in m.distributions(path=[sys.argv[1]])}
def closed(left, answer):
    while left:
        match = re.match(r"([\\w.-]+)(?:\\[([\\w, .-]+)\\])?", left.pop())
        name, extras = name_of(match[1]), re.split(r"[ ,]+", match[2] or "")
        dist = travelled.get(name) or known.get(name)
        if dist is None or (name, match[2]) in answer:
            continue
        answer[name, match[2]] = dist
        left += required(dist, extras)
    return answer
wanted = {name: dist for (name, _), dist in closed(list(travelled), {}).items()}
more = {name: dist for name, dist in wanted.items() if name not in travelled and name not in sys.argv[2:]}
files = [str(path) for dist in more.values() for path in dist.files or () if not str(path).startswith("..")]
print(json.dumps({"site": here, "files": files, "versions": {name: dist.version for name, dist in more.items()}}))
"""


def make_image(
    into: Path,
    outer: Path,
    torch_python: str,
    triton: Path,
    network: Mapping[Path, str],
    vllm: tuple[Path, str] | None = None,
) -> dict[str, Any]:
    """Builds the image in `into` (as triton_image.image()); returns the versions of its contents.

    `triton` holds the files that benchmarks.bring_triton packed; `network` are files of the LLM slot and their folders
    in the image's Python packages; `vllm` is the folder of vLLM's packages, and its path as the machine's own Python
    sees it.
    """
    python_facts = ask_python(outer, torch_python)
    version = python_facts["python"]
    site = f"usr/local/lib/python{version}/dist-packages"
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into, prefix=".layers-") as scratch, ThreadPoolExecutor(4) as pool:
        work = Path(scratch)
        tars = {
            "system": system_layer(outer, version, work),
            "libraries": python_layer(outer, python_facts, site, work, "nvidia/"),
            "packages": python_layer(outer, python_facts, site, work),
            "triton": triton_layer(outer, triton, version, site, work),
            **(vllm_layers(outer, torch_python, *vllm, work, python_facts["versions"]) if vllm else {}),
        }
        for name in tars:
            (work / name).mkdir()
        list(pool.map(lambda name: triton_image.pack_layer(tars[name], work / name), tars))
        more = {path: f"{site}/{folder}" for path, folder in network.items()}
        triton_image.write_image(into, [work / name for name in tars], triton_image.stand_in_tar(site, more))
        sizes = {name: (work / name / "layer.tar.gz").stat().st_size >> 20 for name in tars}
    return {"python": version, "packages": python_facts["versions"], "layers_mib": sizes}


def ask_python(outer: Path, torch_python: str, ask: str = ASK, *words: str) -> dict[str, Any]:
    """Returns version, folder, files and versions of the serving imports, as the given Python reports them."""
    command = ["chroot", str(outer), torch_python, "-I", "-c", ask, *(words or DISTRIBUTIONS)]
    ran = subprocess.run(command, text=True, capture_output=True)
    answer: dict[str, Any] = json.loads(ran.stdout) if ran.returncode == 0 else {"versions": {}}
    # A torch for CPUs lacks the Triton language, which the encoders need only on a GPU.
    wanted = DISTRIBUTIONS if ask is ASK else ()
    lacking = [name for name in wanted if name not in answer["versions"] and name != "triton"]
    if lacking or not answer["versions"]:
        raise RehearsalRefused(
            f"{torch_python} cannot serve\n  missing {', '.join(lacking)}\n"
            f"  said    {(ran.stderr.strip().splitlines() or ['nothing'])[-1]}\n"
            "  try     ENGINEHOUSE_TORCH=/path/to/python3 with torch and transformers\n  state   no image was made"
        )
    return answer


def system_layer(outer: Path, python: str, work: Path) -> list[str]:
    """Returns tar's arguments for the machine's own programs: those of SYSTEM, this Python, and their dependencies."""
    known = _packages(outer)
    ours = [
        name for name in known if re.fullmatch(rf"(lib)?python{re.escape(python)}(t64|-dev|-minimal|-stdlib)?", name)
    ]
    essential = [name for name, fields in known.items() if fields.get("Essential") == "yes"]
    paths = set(BESIDE) | set(MERGED)
    for name in _closed([*SYSTEM, *ours, *essential], known):
        paths |= set(_files(outer, name))
    paths |= {str(link.relative_to(outer)) for link in (outer / "usr/bin").iterdir() if _is_alternative(link)}
    for tree in ("etc/ssl/certs", "etc/alternatives"):
        paths |= {str(path.relative_to(outer)) for path in (outer / tree).rglob("*")}
    listed = work / "system.files"
    # Docker takes no layer that has a path twice.
    listed.write_text("".join(f"{path}\n" for path in sorted(paths) if _is_there(outer / path)))
    return ["-C", str(outer), "--no-recursion", "-T", str(listed), "-c"]


def _is_alternative(link: Path) -> bool:
    return link.is_symlink() and str(link.readlink()).startswith("/etc/alternatives/")


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _packages(outer: Path) -> dict[str, dict[str, str]]:
    """Returns fields of every installed package by its name, and by the names it provides."""
    known: dict[str, dict[str, str]] = {}
    provided: dict[str, dict[str, str]] = {}
    for paragraph in (outer / "var/lib/dpkg/status").read_text().split("\n\n"):
        fields = dict(re.findall(r"^(\S+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            known[fields["Package"]] = fields
            for name in _names(fields.get("Provides", "")):
                provided.setdefault(name, fields)
    return provided | known


def _names(field: str) -> list[str]:
    """Returns package names of a dependency field, alternatives included."""
    return [match[0] for word in re.split(r"[,|]", field) if (match := re.match(r"[a-z0-9][a-z0-9+.-]*", word.strip()))]


def _closed(names: list[str], known: Mapping[str, dict[str, str]]) -> set[str]:
    """Returns real names of these packages and of their installed dependencies."""
    closed, left = set[str](), list(names)
    while left:
        fields = known.get(left.pop())
        if fields is None or fields["Package"] in closed:
            continue
        closed.add(fields["Package"])
        left += _names(fields.get("Depends", "")) + _names(fields.get("Pre-Depends", ""))
    return closed


def _files(outer: Path, package: str) -> Iterator[str]:
    """Yields the package's installed paths, relative, below usr where that is merged, without documentation."""
    info = outer / "var/lib/dpkg/info"
    lists = [path for name in (package, f"{package}:amd64") if (path := info / f"{name}.list").exists()]
    for line in (line for path in lists for line in path.read_text().splitlines()):
        path = line.lstrip("/")
        first = path.split("/", 1)[0]
        path = f"usr/{path}" if first in MERGED and path not in MERGED else path
        if path and path != "." and not f"/{path}".startswith(UNREAD):
            yield path


def python_layer(outer: Path, python_facts: Mapping[str, Any], site: str, work: Path, prefix: str = "") -> list[str]:
    """Returns tar's arguments for the Python packages: those whose path begins with `prefix`, or all the others."""
    source = outer / str(python_facts["site"]).lstrip("/")
    chosen = {path for path in python_facts["files"] if path.startswith("nvidia/") == (prefix == "nvidia/")}
    listed = work / f"python-{prefix.strip('/') or 'others'}.files"
    listed.write_text("".join(f"{path}\n" for path in sorted(chosen) if _is_there(source / path)))
    return ["-C", str(source), f"--transform=s,^,{site}/,S", "--no-recursion", "-T", str(listed), "-c"]


def triton_layer(outer: Path, triton: Path, python: str, site: str, work: Path) -> list[str]:
    """Returns tar's arguments for Triton at the paths of NVIDIA's image, and the numpy of its Python stub."""
    home, tree = triton / f"triton-stub-{python}", work / "triton-tree"
    if not home.is_dir():
        raise RehearsalRefused(
            f"what travelled has no Triton for Python {python}\n  seen    {sorted(triton.iterdir())}"
        )
    unpacked, target = home / "pytriton/tritonserver", tree / "opt/tritonserver"
    for folder in ("bin", "backends", "caches"):
        if (unpacked / folder).is_dir():
            shutil.copytree(unpacked / folder, target / folder, symlinks=True)
    shutil.copytree(home / "nvidia_pytriton.libs", target / "lib", symlinks=True)
    shutil.copytree(home / "numpy", tree / site)
    (tree / "nvidia_pytriton.libs").symlink_to("opt/tritonserver/lib")
    (target / "TRITON_VERSION").write_text("2.51.0\n")
    _remember_driver(outer, tree)
    return ["-C", str(tree), "--owner=0", "--group=0", "-c", "."]


def vllm_layers(
    outer: Path, torch_python: str, packages: Path, seen_as: str, work: Path, present: Iterable[str]
) -> dict[str, list[str]]:
    """Returns tar's arguments for vLLM's packages with its program, and for further packages of the machine that they
    need besides `present`.

    Triton's stub has its own numpy, so only the program has vLLM's folder before the image's packages.
    """
    wanted = ask_python(outer, torch_python, ASK_BESIDE, seen_as, *present)
    programs = work / "vllm-tree"
    (programs / PROGRAMS).mkdir(parents=True)
    (programs / PROGRAMS / "vllm").write_text(VLLM)
    (programs / PROGRAMS / "vllm").chmod(0o755)
    listed = work / "vllm-wanted.files"
    source = outer / str(wanted["site"]).lstrip("/")
    listed.write_text("".join(f"{path}\n" for path in sorted(set(wanted["files"])) if _is_there(source / path)))
    below = f"s,^,{VLLM_HOME.lstrip('/')}/,S"
    return {
        "vllm": [
            *("-C", str(packages), f"--transform=s,^\\./,{VLLM_HOME.lstrip('/')}/,S", "--exclude=__pycache__"),
            *("-c", ".", "-C", str(programs), PROGRAMS.split("/", 1)[0]),
        ],
        "vllm-wanted": ["-C", str(source), f"--transform={below}", "--no-recursion", "-T", str(listed), "-c"],
    }


def _remember_driver(outer: Path, tree: Path) -> None:
    """Adds libcuda to the image's library cache, like the toolkit's hook at a container's start.

    The Triton language asks that cache, and compiles no kernel without the name (seen on an H100, 2026-11-22). The
    stand-in toolkit has no hooks, but puts the driver's library where the cache says. The machine's compiler makes an
    empty library of that name while the cache is written; without a compiler, kernels could not be compiled either.
    """
    folder = tree / LIBRARIES
    folder.mkdir(parents=True)
    (tree / "etc").mkdir(exist_ok=True)
    gcc = ["chroot", str(outer), "gcc", "-shared", "-nostdlib", "-Wl,-soname,libcuda.so.1", "-x", "c", "-", "-o"]
    with tempfile.TemporaryDirectory(dir=outer / "tmp", prefix="libcuda-") as scratch:
        made = Path(scratch) / "libcuda.so.1"
        ran = subprocess.run([*gcc, f"/{made.relative_to(outer)}"], input="", text=True, capture_output=True)
        if ran.returncode:
            raise RehearsalRefused(
                f"this machine's compiler makes no library\n  said    {ran.stderr.strip()[-300:]}\n"
                "  wanted  gcc, for kernels that are compiled at a model's load\n  state   no image was made"
            )
        shutil.copy(made, folder)
    subprocess.run(["ldconfig", "-r", str(tree), f"/{LIBRARIES}"], check=True)
    shutil.rmtree(folder)
