"""General expressions for lines of logs that match no fixed phrase: error levels by program, and words of a reason.

The forms of the levels are those of glog, Python's logging, loguru, uvicorn, Rust's tracing, logrus, zap, HAProxy and
systemd, known from reports. Rules of deploy/doctor/phrases.py hold here too. A word counts only in a line of an error
level without a fixed phrase.
"""

from __future__ import annotations

from collections.abc import Mapping

_SERVERS = "-u 'triton@*' -u 'llm@*'"
_SERVICES = f"-u docker -u containerd -u 'enginehouse-*' {_SERVERS}"
_LEVELS = "ERROR|FATAL|CRITICAL"
_WORDS = "[a-zA-Z ]{0,20}"
_PART = "(file|path|directory|weight|checkpoint|tensor|tokenizer|shard|vocab)"
_OF_A_MODEL = "(model|architecture|layer|quanti[sz]ation|tokenizer|dtype|op(erator)?)"
_OF_A_COMMAND = "(argument|option|flag|parameter|value|key|field|setting|combination)"
_PROGRAM = "([Pp]rocess|[Ww]orker|[Ee]ngine|[Ss]cheduler|[Ee]xecutor)"
_FAILED = "([Ff]ailed to|[Uu]nable to|([Cc]an|[Cc]ould)( not|not|n.t)|[Ee]rror)"

HEADS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Triton": (
        _SERVERS,
        (r"[EF]([0-9]{4} [0-9:.]{8,16} {1,8}[0-9]{1,9})? [A-Za-z_]{2,40}\.(cc|cpp|h|cu):[0-9]{1,5}\]",),
    ),
    "TensorRT-LLM": (
        _SERVERS,
        (
            r"\[TensorRT-LLM\]\[ERROR\]",
            r"\[TRT(-LLM)?\] (\[RANK [0-9]{1,4}\] )?\[[EF]\]",
            r"\[TensorRT\] [A-Z_]{0,9}ERROR",
        ),
    ),
    "vLLM": (_SERVERS, (r"(ERROR|CRITICAL)( [0-9-]{5} [0-9:]{8})? \[?[A-Za-z0-9_./]{2,60}\.py:[0-9]{1,5}\]",)),
    "a Python program": (
        _SERVERS,
        (
            "(^|[ .(])[A-Z][A-Za-z0-9]{1,40}(Error|Exception|Timeout|Exit|Failure)[:(]",
            "(^|[ .])[A-Z][A-Za-z0-9]{1,40}(Error|Exception)$",
            r"Traceback \(most recent call last\)",
            rf"({_LEVELS}):[A-Za-z0-9_.]{{2,60}}:",
            rf"- ({_LEVELS}) - ",
            rf"({_LEVELS}) {{1,3}}\[[0-9:]{{1,20}}\]",
            rf"({_LEVELS}) {{1,5}}\| [A-Za-z0-9_.:-]{{2,80}}",
            rf"(^|\[)({_LEVELS})(\]|: {{2,6}})",
            rf"level(name)?.: ?.({_LEVELS}|error|fatal|critical|panic).",
        ),
    ),
    "a program in Rust": (
        _SERVERS,
        ("(ERROR|FATAL) {1,4}[a-z0-9_]{2,40}(::[a-z0-9_]{1,40}){0,5}:", "^Error: "),
    ),
    "a program in C++": (_SERVERS, (r"what\(\): ",)),
    "Docker or containerd": (
        _SERVICES,
        ("level=(error|fatal|panic)", r"(ERRO|FATA|PANI)\[[0-9T:+.-]{4,40}\]"),
    ),
    "systemd": (
        _SERVICES,
        (
            ": Failed with result .[a-z-]{3,20}.",
            ": ([Mm]ain|[Cc]ontrol) process exited",
        ),
    ),
    "apt": (_SERVICES, ("^E: ",)),
    "kubelet": ("-u kubelet", (r"[EF][0-9]{4} [0-9:.]{8,16} {1,8}[0-9]{1,9} [a-z_]{2,40}\.go:[0-9]{1,5}\]",)),
    "Slurm": ("-u 'slurm*'", ("slurm[a-z]{1,5}: (error|fatal): ",)),
    "cloud-init": ("-u 'cloud-*'", (r"\.py\[(ERROR|CRITICAL|WARNING)\]: (Failed|Running|Invalid|No |Unexpected)",)),
}
"""Error levels by program: the place of its log, and the expressions."""
SERVERS = tuple(program for program, (units, _) in HEADS.items() if units == _SERVERS)
"""Programs of servers; other programs log errors on healthy hosts too."""

WORDS: Mapping[str, tuple[str, ...]] = {
    "cause-disk": ("[Nn]o space left", "[Qq]uota exceeded"),
    "cause-memory": (
        "[Oo]ut of (GPU |device |CUDA )?memory",
        "[Oo]ut[Oo]f[Mm]emory",
        "([Ii]nsufficient|[Nn]ot enough) [a-zA-Z ]{0,24}memory",
        f"{_FAILED} (re)?allocate [a-zA-Z0-9 ]{{0,24}}(memory|bytes|buffer|[KMG]i?B)",
        "exceeds? (the )?(available|free|total) [a-zA-Z ]{0,12}memory",
        "memory (pool|allocation|budget)[a-z ]{0,20} (failed|exhausted|exceeded|too small)",
    ),
    "cause-port": ("([Aa]ddress|[Pp]ort)[a-z0-9 ]{0,20} in use", f"{_FAILED} bind"),
    "cause-permission": ("[Pp]ermission denied", "[Aa]ccess is denied", f"{_FAILED} write "),
    "cause-hub": (
        "[Uu]nauthori[sz]ed|[Ff]orbidden",
        "[Aa]uthenti(cation|cate)[a-z ]{0,20}([Ee]rror|failed|required)",
        "(API|access) (key|token)[a-z ]{0,20} (missing|invalid|expired|not (set|found|provided))",
        f"{_FAILED} (download|fetch|resolve|reach|retrieve)",
        "[Dd]ownload(ing)? [a-z ]{0,30}failed",
        "dns error|[Cc]ould not resolve",
        "(HTTP|http|status)( code| status|:)? ?(401|403|404|407|429|50[0-4])",
    ),
    "cause-version": (
        "[Vv]ersion[a-z0-9. ]{0,24} (mismatch|incompatible|(is )?(not supported|unsupported|too (old|new)))",
        "([Mm]ismatch(ed)?|[Ii]ncompatible|[Uu]nsupported) [a-zA-Z ]{0,20}version",
        f"{_FAILED} deseriali[sz]e",
    ),
    "cause-gpu": (
        f"not (supported|compatible|available) (on|with|by|for|in) {_WORDS}(GPU|hardware|device|arch)",
        "[Cc]ompute capability [0-9]",
        "no (suitable|compatible|supported|valid) [a-zA-Z]{0,12} ?(kernel|backend|tactic|profile)s?",
    ),
    "cause-no-gpu": (
        f"([Nn]o|[Cc]ould not (find|detect)|without) {_WORDS}(GPU|CUDA device)s?",
        "(CUDA|GPU|NVML)[a-z ]{0,20} (is )?(not (available|found|detected|initiali[sz]ed)|unavailable)",
    ),
    "cause-gpu-fault": (
        "CUDA_ERROR_[A-Z_]{3,40}",
        "cudaError[A-Z][A-Za-z]{2,40}",
        "CU[A-Z]{2,8}_STATUS_[A-Z_]{3,40}",
        "illegal (memory access|address|instruction)",
        "[Cc][Uu][Dd][Aa] (runtime |driver |kernel )?(error|failure)",
        "(NVLink|ECC) [a-z ]{0,12}[Ee]rror",
    ),
    "cause-shm": ("shared memory", "/dev/shm"),
    "cause-ranks": (
        "([Tt]ensor|[Pp]ipeline|[Ee]xpert)[_ -][Pp]arallel",
        "([Ww]orld[_ ]size|num(ber of)?[_ ](GPUs?|gpus?|ranks?|devices?))",
        "divisible by",
    ),
    "cause-nccl": (
        "NCCL|nccl|NVSHMEM|[Aa]ll[_-]?[Rr]educe|[Rr]endezvous|[Cc]ommunicator",
        "[Rr]ank [0-9]{1,4} [a-z ]{0,20}(timed out|time ?out|not respond|lost|unreachable)",
    ),
    "cause-module": (
        f"{_FAILED} (import |load [a-z ]{{0,16}}(library|plugin|symbol|extension))",
        "[A-Z][A-Za-z0-9_]{2,24} is not (available|installed)",
    ),
    "cause-config": (r"config\.pbtxt", "[Mm]odel config(uration)?", "[Ii]nstance group", "[Ee]nsemble"),
    "cause-files": (
        "[Nn]o such file or directory",
        f"{_FAILED} (find|open|read|locate|parse|load) {_WORDS}{_PART}",
        f"{_PART}s? {_WORDS}(not found|does not exist|(is )?missing)",
        "(corrupt(ed)?|truncated|incomplete) [a-z ]{0,20}(file|archive|weights|checkpoint|download)",
    ),
    "cause-cache": ("(KV|kv)[ _-]?[Cc]ache",),
    "cause-model": (
        f"([Uu]nsupported|[Uu]nknown|[Uu]nrecogni[sz]ed) {_WORDS}{_OF_A_MODEL}",
        f"{_OF_A_MODEL}( [A-Za-z0-9_.'-]{{1,40}})? (is )?not (yet )?(supported|implemented|recogni[sz]ed)",
        "([Ss]ize|[Ss]hape|[Dd]imension)s? ?mismatch",
        "([Mm]issing|[Uu]nexpected) (keys?|weights?|parameters?|tensors?)",
        "not implemented|NotImplemented",
    ),
    "cause-arguments": (
        f"([Uu]nknown|[Uu]nexpected|[Mm]issing|[Uu]nrecogni[sz]ed) {_WORDS}{_OF_A_COMMAND}",
        "[Ii]nvalid [a-zA-Z ]{0,20}(option|flag|parameter|value|key|field|setting|combination)",
        "(must|should|has to|needs to) be ",
        "cannot be (used|combined|empty|None|set|enabled|negative)",
        "(is|are) (required|not allowed|not supported|unsupported|mutually)",
        "[Ee]xpected [a-z ]{1,20},? (but )?got",
    ),
    "cause-build": ("([Ee]ngine|[Nn]etwork|[Tt]actic|[Bb]uilder)[a-z ]{0,20} [Ff]ailed", f"{_FAILED} build"),
    "cause-crash": (
        f"{_PROGRAM}[A-Za-z0-9_ ]{{0,24}} (died|is dead|crashed|has exited|was killed|is not healthy)",
        "[Ee]xit(ed)?( with)?( code| status)?[:=]? ?-[0-9]{1,2}",
        "SIG(SEGV|ABRT|KILL|BUS|ILL|FPE|TRAP)|/(TRAP|SEGV|ABRT|KILL)",
    ),
}
"""Words that name a reason in a line of an error level, by finding; the first row that has one counts."""
