"""The files of an archive that a colleague or a vendor may see, from the hosts' answers. Pure; roles/doctor writes it.

FORMS has a pattern for each question: a question without a pattern is left out, and so is a line that does not match
its question's pattern completely. The findings are computed again from the admitted lines, so that no rule can quote
other text.
"""

import gzip
import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deploy.doctor.causes import PATTERN
from deploy.doctor.examine import findings_of
from deploy.doctor.kernel import shortened
from deploy.doctor.phrases_kernel import KERNEL_PATTERN
from deploy.doctor.readings import Readings, fields, seconds
from deploy.doctor.wanted import Wanted

_NAME, _UNIT, _PATH, _COUNT = r"[\w.-]{1,80}", r"[\w@.:\\-]{1,120}", r"/[\w/.-]{0,200}", r" *\d{1,9}"
_PACKAGE = r"[a-z\d][\w.+-]{1,80}"
_VALUE = r"[\w .:%/,()\[\]-]{0,80}"
_KERNEL = r"[\d.]{1,20} NVRM:? [\w .,:;()\[\]<>='-]{1,300}"
_BESIDE = rf"(?:[\d.]{{1,20}} )?(?:{KERNEL_PATTERN})(?: \(PCI:[\da-fA-F:]{{5,20}}\))?"
_ROOM = rf"[\w/.:-]{{1,80}}(?: +\d{{1,20}}){{3}} +\d{{1,3}}% {_PATH}"
FORMS: Mapping[str, str] = {
    "user": r"\d{1,10}",
    "smi": "|".join(
        [
            r"=+NVSMI LOG=+|GPU [\dA-Fa-f:.]{5,20}",
            rf"(?:Timestamp|Driver Version|CUDA Version|Attached GPUs) +: {_VALUE}",
            rf" {{4,40}}[A-Za-z][\w /.()-]{{0,60}}?(?: +: {_VALUE})?",
            r"(?:NVIDIA-SMI has failed|Failed to initialize NVML|Unable to determine the device handle|No devices were"
            r" found|nvidia-smi: command not found)[\w .:,'/-]{0,160}",
        ]
    ),
    "gpu-users": r"\d{1,9} [\w.:-]{1,15}",
    "pci": r"[\da-f:.]{5,20} 10de:[\da-f]{1,8} 0x[\da-f]{1,8}",
    "loaded": r"[\d.]{1,20}",
    "library": r"[\d.]{1,20}",
    "nouveau": "loaded",
    "kernel": _KERNEL,
    "kernel-before": _KERNEL,
    "kernel-beside": _BESIDE,
    "mended": r"[\d.]{1,20}",
    "cdi": r"libcuda\.so\.[\d.]{1,20}",
    "toolkit": r"[\d.~-]{1,20}",
    "installed": rf"{_PACKAGE} [\w.+:~-]{{1,80}}",
    "images": rf"{_NAME} triton_core [\d.]{{1,20}} trtllm(?: [\w.]{{1,30}})?",
    "ptrace-scope": r"\d",
    "clock": r"\d{1,12}",
    "clock-kept": "yes|no",
    "room": _ROOM,
    "inodes": _ROOM,
    "unwritable": _PATH,
    "boot-wanted": _PACKAGE,
    "apt": r"\d{1,9} [\w.:-]{1,15}",
    "packages": rf"journal|[a-z][A-Za-z][R ]? +{_PACKAGE}",
    "units": rf"|(?:Id|LoadState|ActiveState|Result)={_UNIT}|NRestarts=\d{{1,9}}",
    "errors": rf"{_COUNT} {_UNIT}",
    "listening": r"[\dA-F]{8,32}:[\dA-F]{4} [\dA-F]{2}",
    "certificates": rf"{_PATH} notAfter=[\w :]{{1,40}}",
    "undo": rf"{_NAME} waiting",
    "servers": rf"{_NAME} (?:current [\da-f]{{16}}|cut yes|(?:verdict|watch) \{{.*\}})",
    "first-boot": (
        r'\{"state": "[a-z]{1,9}", "step": "[A-Za-z ]{1,40}", "exit": (?:null|\d{1,3}), "since": "[\dTZ:-]{1,20}"\}'
    ),
    "repair": r'enginehouse_repairs?_[a-z_]{1,40}(?:\{remedy="[a-z]{1,6}",result="[a-z]{1,8}"\})? \d{1,12}',
    "notices": r'enginehouse_notices?_[a-z_]{1,40}(?:\{kind="[A-Za-z ]{1,40}"\})? \d{1,12}',
    "holds": rf"{_NAME} \{{.*\}}",
    "causes": _COUNT + r" ?(?:" + re.sub(r"(?<!\[)\^", " ", PATTERN) + ")",
    "metrics": rf'{_NAME} (?:nv_trt_llm|enginehouse_llm)_\w{{1,60}}\{{[\w=",.-]{{1,200}}\}} [\d.e+-]{{1,20}}',
    "links": rf"{_NAME} [\d.]{{1,20}}",
    "ready": rf"{_NAME} {_NAME} \d{{0,3}}",
}
"""Pattern of a whole line of each question."""
LEFT_OUT = ("lock",)
"""Questions whose answers name people."""
_RECORD = re.compile(r"(\S+ (?:verdict|watch)|\S+) (\{.*\})")
_RESULT = re.compile(r"[a-z ]{1,30}")


@dataclass(frozen=True)
class Archive:
    """The files of an archive by name, and the bytes that hold them."""

    files: Mapping[str, bytes]
    packed: bytes

    @property
    def summary(self) -> str:
        """The archive's size and content, on one line."""
        whole = sum(map(len, self.files.values()))
        hosts = len({name.split("/")[1] for name in self.files if name.startswith("hosts/")})
        return f"{len(self.packed):,} bytes, {whole:,} unpacked: {len(self.files)} files of {hosts} hosts"


def archive_of(hosts: Mapping[str, tuple[Readings, Wanted]], when: float) -> Archive:
    """The archive of these hosts, made at `when` (seconds of the epoch); equal answers make equal bytes."""
    files = {"about.txt": _ABOUT.encode()}
    for host, (readings, wanted) in sorted(hosts.items()):
        files |= {f"hosts/{_folder(host)}/{name}": text.encode() for name, text in _of_host(readings, wanted)}
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=int(when), filename="") as zipped,
        tarfile.TarFile(fileobj=zipped, mode="w") as tar,
    ):
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), int(when), 0o600
            tar.addfile(entry, io.BytesIO(content))
    return Archive(files, packed.getvalue())


def let_in(readings: Readings) -> Readings:
    """The parts of these answers that FORMS admits."""
    texts = {name: "\n".join(_lines(name, readings.text(name), form)) for name, form in FORMS.items()}
    ended = {name: how for name, how in readings.ended.items() if name in FORMS and re.fullmatch(r"[a-z\d]{1,5}", how)}
    return Readings(texts, ended)


def _of_host(readings: Readings, wanted: Wanted) -> Iterator[tuple[str, str]]:
    kept = let_in(readings)
    yield "findings.json", _json([finding.to_json() for finding in findings_of(kept, wanted)])
    servers = [{"name": server.name, "release": server.release, "models": server.models} for server in wanted.servers]
    yield "plan.json", _json({"gpus": wanted.gpus, "mig": wanted.mig, "servers": servers})
    lost = {name: len(readings.lines(name)) - len(kept.lines(name)) for name in sorted(readings.texts)}
    yield "left-out.json", _json({name: lines for name, lines in lost.items() if lines})
    for name in FORMS:
        if kept.has(name):
            yield f"answers/{name}.txt", kept.text(name) + "\n"


def _lines(name: str, text: str, form: str) -> Iterator[str]:
    shape, is_process = re.compile(form, re.ASCII), False
    for line in text.splitlines():
        if name == "smi":  # programs' names stand below `Processes`
            is_process = not line.startswith("GPU ") and (is_process or line.strip().startswith("Processes"))
        elif name == "kernel-beside":
            line = shortened(line)
        elif name.startswith("kernel"):  # the host's name stands between stamp and message
            line = re.sub(r"^(\s*[\d.]+) .*?(?=NVRM)", r"\1 ", line)
        if not is_process and shape.fullmatch(line):
            yield _numbers_only(line) if name in ("servers", "holds") else line


def _numbers_only(line: str) -> str:
    """A line with a JSON record, without the record's texts; any other line unchanged."""
    if not (record := _RECORD.fullmatch(line)):
        return line
    record_fields = fields(record[2])
    kept: dict[str, Any] = {
        key: seconds(record_fields[key]) for key in ("since", "until", "cloud") if key in record_fields
    }
    if _RESULT.fullmatch(str(record_fields.get("result", ""))):
        kept["result"] = record_fields["result"]
    if isinstance(times := record_fields.get("restarts"), list):
        kept["restarts"] = [seconds(moment) for moment in times]
    return f"{record[1]} {json.dumps(kept)}"


def _folder(host: str) -> str:
    return re.sub(r"[^\w.-]|^\.+", "_", host)


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


_ABOUT = """What `enginehouse doctor` read on these hosts, as far as deploy/doctor/archive.py lets it in.

hosts/NAME/answers/       what the host printed: nvidia-smi -q without its processes (serial numbers and UUIDs of the
                          cards are in it), Xid messages, states of units, room on disks, ports, releases
hosts/NAME/findings.json  what the doctor makes of these lines
hosts/NAME/plan.json      what the inventory wants there: GPUs, servers, releases, names of models
hosts/NAME/left-out.json  how many lines of each question were not let in

Not in it: keys, prompts, answers, logs of servers, sentences of errors, names of people, addresses of the plan.
"""
