"""Judges clients of a server and programs that prepare one: curl, genai-perf, hf, nvidia-ctk."""

import re
import shlex

from deploy.catalog.names import nearest, slip_of
from deploy.catalog.programs import CURL, GENAI_PERF_ENDPOINTS, HF_DOWNLOAD, HF_GONE, HF_VERBS
from deploy.linter.findings import HIDDEN, Call, Judged, is_secret, raws
from deploy.linter.options import Option, mixed_options
from deploy.linter.release import Target

URL = re.compile(r"(?P<start>(?:https?://)?(?P<host>[^/:\s]+)(?::(?P<port>\d+))?)(?P<path>/[^?#]*)?")
MODEL = r"/v2/models/[^/]+(/versions/[^/]+)?"
ENDPOINTS = (
    (r"/v2/health/(live|ready)", ("GET",)),
    (r"/v2", ("GET",)),
    (rf"{MODEL}(/ready|/config|/stats)?", ("GET",)),
    (r"/v2/models/stats", ("GET",)),
    (rf"{MODEL}/(infer|generate|generate_stream)", ("POST",)),
    (rf"{MODEL}/trace/setting", ("GET", "POST")),
    (r"/v2/repository/index", ("POST",)),
    (r"/v2/repository/models/[^/]+/(load|unload)", ("POST",)),
    (r"/v2/(systemsharedmemory|cudasharedmemory)(/.+)?", ("GET", "POST")),
    (r"/v2/(logging|trace/setting)", ("GET", "POST")),
    (r"/metrics", ("GET",)),
)
NAMED = (
    *("/v2/health/live", "/v2/health/ready", "/v2", "/v2/models/stats", "/v2/repository/index", "/v2/logging"),
    *("/v2/trace/setting", "/metrics"),
)
DATA = ("-d", "--data", "--data-raw", "--data-binary", "--data-urlencode", "--json", "-F", "--form")
SERVICES = {"triton": "kserve", "openai": "chat", "tensorrtllm_engine": "tensorrtllm_engine"}


def judge_curl(call: Call, _target: Target) -> Judged:
    """Findings about `curl … URL` if the URL is one of Triton's; none for any other URL."""
    judged = Judged(right=[*call.head, *raws(call.args)])
    options, words = mixed_options(call.args, CURL)
    for word in words:
        match = URL.fullmatch(word.text.partition("?")[0])
        path = (match["path"] or "/").rstrip("/") or "/" if match else ""
        if match and _may_be_triton(match, path):
            _endpoint(judged, options, word.raw, match["start"], match["port"] or "", path)
    return judged


def _may_be_triton(match: re.Match[str], path: str) -> bool:
    """True if the URL may be Triton's: container registries answer /v2 too, over TLS without a port or on port 5000."""
    port = match["port"] or ""
    elsewhere = port in ("443", "5000") or (match["start"].startswith("https://") and not port)
    ours = path.startswith("/v2") or port in ("8000", "8002")
    return ours and not elsewhere and "$" not in path and not path.startswith("/v1/health")


def _endpoint(judged: Judged, options: list[Option], url: str, start: str, port: str, path: str) -> None:
    method = _method(options)
    allowed = next((methods for pattern, methods in ENDPOINTS if re.fullmatch(pattern, path)), None)
    if path == "/v2/models":
        _no_list(judged, url, start)
    elif path == "/v2" and port:
        judged.know(
            "server-metadata",
            "/v2 describes the server, not the loaded models",
            seen=url,
            wanted="the index, with every model's state and reason",
            attempt=f"curl -X POST {start}/v2/repository/index",
        )
    elif path == "/metrics" and port in ("8000", "8001"):
        judged.add(
            "wrong-port",
            f"metrics are not on port {port}",
            seen=url,
            wanted="port 8002, unless --metrics-port says another",
            attempt=f"curl {start.replace(port, '8002')}/metrics",
        )
        judged.right = ["curl", f"{start.replace(port, '8002')}/metrics"]
    elif path.startswith("/v1/"):
        _no_openai(judged, url)
    elif allowed is None:
        _unknown_path(judged, url, start, path)
    elif method not in allowed:
        _wrong_method(judged, url, method, allowed)


def _method(options: list[Option]) -> str:
    named = next((option.value.upper() for option in options if option.name in ("-X", "--request")), "")
    sends = any(option.name in DATA for option in options) and not any(
        option.name in ("-G", "--get") for option in options
    )
    return named or (
        "POST" if sends else "HEAD" if any(option.name in ("-I", "--head") for option in options) else "GET"
    )


def _no_list(judged: Judged, url: str, start: str) -> None:
    judged.add(
        "no-such-endpoint",
        "Triton has no /v2/models: no endpoint lists models with GET",
        seen=url,
        wanted="POST /v2/repository/index: every model with its state and the reason",
        attempt=f"curl -X POST {start}/v2/repository/index",
    )
    judged.right = ["curl", "-X", "POST", f"{start}/v2/repository/index"]


def _no_openai(judged: Judged, url: str) -> None:
    judged.add(
        "no-such-endpoint",
        "tritonserver has no OpenAI API: /v1 belongs to trtllm-serve or to a separate frontend",
        seen=url,
        wanted="/v2/models/NAME/generate, or trtllm-serve",
        attempt='curl -X POST …/v2/models/NAME/generate -d \'{"text_input": "…"}\'',
    )
    judged.right = []


def _unknown_path(judged: Judged, url: str, start: str, path: str) -> None:
    near = nearest(path, NAMED, cutoff=0.6)
    judged.add(
        "no-such-endpoint",
        f"Triton has no endpoint {path}",
        seen=url,
        wanted="/v2/health/ready, /v2/models/NAME/{ready,config,stats,infer,generate,generate_stream}, "
        "/v2/repository/index",
        attempt=f"did you mean {start}{near}?" if near else "read the list above",
    )
    judged.right = ["curl", f"{start}{near}"] if near else []


def _wrong_method(judged: Judged, url: str, method: str, allowed: tuple[str, ...]) -> None:
    if method == "HEAD":
        return
    judged.add(
        "wrong-method",
        f"this endpoint takes {' or '.join(allowed)}, and curl sends {method}",
        seen=f"{method} {url}",
        wanted=" or ".join(allowed),
        attempt=f"curl -X {allowed[0]} {url}",
    )
    kept = [raw for raw in judged.right[1:] if raw not in ("-X", "--request", method)]
    judged.right = ["curl", "-X", allowed[0], *kept]


def judge_hf(call: Call, _target: Target) -> Judged:
    """Findings about `hf …`, and about `huggingface-cli …`, its former name."""
    judged = Judged(right=["hf"])
    if call.program == "huggingface-cli":
        judged.add(
            "program-renamed",
            "huggingface-cli became hf in huggingface_hub 1.0",
            seen=call.program,
            wanted="hf",
            attempt="hf " + HF_VERBS.get(call.args[0].text if call.args else "", "download"),
        )
    verb = call.args[0].text if call.args else ""
    if verb != "download":
        judged.right += HF_VERBS[verb].split() if verb in HF_VERBS else [shlex.quote(verb)] if verb else []
        judged.right += raws(call.args[1:])
        return judged
    options, words = mixed_options(call.args[1:], HF_DOWNLOAD | dict.fromkeys(HF_GONE, True))
    judged.right += ["download", *raws(words)]
    for option in options:
        judged.right += _hf_option(judged, option)
    return judged


def _hf_option(judged: Judged, option: Option) -> list[str]:
    if option.name in HF_GONE:
        judged.add(
            "removed-flag",
            f"`{option.name}` is gone: {HF_GONE[option.name]}",
            seen=" ".join(option.raw),
            wanted="nothing in its place",
            attempt=f"remove {option.name}",
        )
        return []
    if option.name == "--token" and is_secret("token", option.value):
        judged.add(
            "secret-in-words",
            "a token on the command line is in the shell's history and in ps for everyone",
            seen=f"--token {HIDDEN}",
            wanted="HF_TOKEN in the environment",
            attempt="export HF_TOKEN beforehand and remove --token",
        )
        return []
    near = slip_of(option.name, HF_DOWNLOAD)
    if near:
        judged.no_option("hf download", option, near)
        return [near, *raws(option.values)]
    return list(option.raw)


def judge_genai_perf(call: Call, _target: Target) -> Judged:
    """Findings about `genai-perf …`: it is phased out, and `--service-kind` with it."""
    judged = Judged(right=list(call.head))
    options, words = mixed_options(call.args, {"--service-kind": True, "--endpoint-type": True})
    judged.know(
        "phased-out",
        "GenAI-Perf is phased out: its README points to AIPerf since December 2025",
        seen=call.program,
        wanted="perf_analyzer for Triton's own protocol, aiperf for OpenAI-style endpoints",
        attempt="perf_analyzer -m MODEL -u HOST:8001 -i grpc --streaming --input-data …",
    )
    judged.right += raws(words[:1])
    for option in options:
        if option.name == "--service-kind":
            endpoint = SERVICES.get(option.value, "generate")
            judged.add(
                "removed-flag",
                "`--service-kind` was removed in April 2025",
                seen=" ".join(option.raw),
                wanted=f"--endpoint-type: {', '.join(GENAI_PERF_ENDPOINTS)}, …",
                attempt=f"--endpoint-type {endpoint}",
            )
    judged.right = [*call.head, *_with_endpoint(call)]
    return judged


def _with_endpoint(call: Call) -> list[str]:
    words = raws(call.args)
    for place, raw in enumerate(words):
        name, equals, value = raw.partition("=")
        if name == "--service-kind":
            kind = value if equals else words[place + 1] if place + 1 < len(words) else ""
            has_type = any(word.partition("=")[0] == "--endpoint-type" for word in words)
            right = [] if has_type else ["--endpoint-type", SERVICES.get(kind, "generate")]
            return [*words[:place], *right, *words[place + (1 if equals else 2) :]]
    return words


def judge_nvidia_ctk(call: Call, _target: Target) -> Judged:
    """Findings about `nvidia-ctk …`, which changes Docker's configuration."""
    judged = Judged(right=[*call.head, *raws(call.args)])
    words = [word.text for word in call.args]
    verb = slip_of(words[0], ("runtime", "cdi", "config", "system", "hook", "info")) if words else ""
    if verb:
        judged.add(
            "unknown-option",
            f"nvidia-ctk has no command `{words[0]}`",
            seen=call.args[0].raw,
            wanted="runtime, cdi, config, system, hook or info",
            attempt=f"did you mean `{verb}`?",
        )
        judged.right = [*call.head, verb, *raws(call.args[1:])]
    if words[:2] == ["runtime", "configure"]:
        _runtime_configure(judged, call, words)
    return judged


def _runtime_configure(judged: Judged, call: Call, words: list[str]) -> None:
    enables = [word for word in words if word.startswith("--cdi.enabled") and not word.endswith("=false")]
    if enables:
        judged.add(
            "features-lost",
            "`--cdi.enabled` replaces every other entry of `features` in daemon.json, the image store among them",
            seen=enables[0],
            wanted='"features": {"cdi": true} merged into /etc/docker/daemon.json',
            attempt="leave --cdi.enabled out; CDI is on by default from Docker 28.2",
        )
        judged.right = [*call.head, *(word.raw for word in call.args if not word.text.startswith("--cdi.enabled"))]
    judged.know(
        "configuration-rewritten",
        "nvidia-ctk writes daemon.json anew at every run and does not restart Docker; CDI needs no runtime entry",
        seen=" ".join(words),
        wanted="docker run --device nvidia.com/gpu=all, with the CDI specification of the container toolkit",
        attempt="nvidia-ctk cdi list",
    )
