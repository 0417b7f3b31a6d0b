"""Finds the first server in pasted text, a place for each of its words, and writes the inventory."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from deploy.catalog import ARCHITECTURES, DEFAULT_RELEASE, kind_of
from deploy.catalog.checkpoint_rows import KnownCheckpoint
from deploy.catalog.names import nearest
from deploy.linter.fields import fields_of
from deploy.linter.findings import SECRET_NAME, masked
from deploy.linter.manifests import Container
from deploy.linter.options import Option, argparse_options
from deploy.linter.words import Word, too_many, word
from deploy.migrate.container_keys import of_container
from deploy.migrate.container_options import VARIABLES, of_docker, of_variables
from deploy.migrate.counterparts import COUNTERPARTS
from deploy.migrate.findings import Finding, Migration
from deploy.migrate.inventory import inventory_text
from deploy.migrate.lmdeploy import not_read
from deploy.migrate.options import NO_PLACE
from deploy.migrate.places import PLACES, Settings
from deploy.migrate.published import as_published, kind_by_name, known_checkpoint, of_branch, of_nim, of_source
from deploy.migrate.reading import Server, servers_of
from deploy.migrate.servers import NIM
from deploy.migrate.vllm_only import program_finding, reason_for_vllm, serve_with_vllm
from deploy.migrate.weights import is_model, source_of
from deploy.refusals import refuse
from deploy.spec import LLM
from deploy.spec.sources import HUB_NAME

SAME_GPUS = "its groups are the same GPUs: Parallel(tensor=…) has them"
UNIT = "the roles write the units of servers: their user, limits, restarts and order"
SEVERAL = frozenset(["--served-model-name", "--lora-modules", "--allowed-origins", "--middleware", "--api-key"])
"""Options that take several words."""
SECRET = ("--api-key", "--hf-token")
OF_LLMS = ("max_", "chunked_", "kv_cache", "parallel", "precision", "tool_", "reasoning_", "guided_", "lora")
"""Beginnings of places that only an LLM has."""
OF_ENCODERS = ("max_batch_tokens", "max_items")
STARTS_A_SCRIPT = re.compile(r"(?:CMD|ENTRYPOINT|command:|exec)[ \t\[\"']+(?:(?:ba|z|da)?sh[\"', ]+)?([\w./-]+\.sh)\b")
COMPOSED = re.compile(r"\bdocker[ -]compose\b(?:.*?-f\s+([\w./-]+))?")
EVERY = {**PLACES, **COUNTERPARTS}


def migrate(text: str) -> Migration:
    """The inventory of the first server in the text, and its words that have no place in it.

    Raises: a Refusal without a server, or for a server without a model.
    """
    if crowd := too_many(text):
        raise _refused("it has more different names than a command or a file of containers has", crowd)
    nameless: Server | None = None
    for server in servers_of(text):
        call, findings = _placed(server)
        if call.repository:
            return _written(call, findings)
        nameless = nameless or server
    if script := STARTS_A_SCRIPT.search(text) or COMPOSED.search(text):
        file = script[1] or "compose.yaml"
        raise _refused(f"it starts {file}, which was not read", script[0].strip(), f"enginehouse migrate {file}")
    if nameless is None:
        title, advice = not_read(text)
        problem = f"it names {title}: {advice}" if title else "no server was found that is known here"
        raise _refused(problem, masked(" ".join(text.split()[:2]))[:80] or "nothing")
    options = dict.fromkeys(word.text.partition("=")[0] for word in nameless.args if word.text.startswith("-"))
    before = ["", *(word.text for word in nameless.args)]
    for option, text in pairwise(before):
        if option in ("--config", "--yaml-config") or text.startswith("--config="):
            file = text.partition("=")[2] or text
            raise _refused(f"its settings are in {file}, which was not read", text, f"enginehouse migrate {file}")
        is_bare = option in ("", "--model", "--model-path", "--model-id") or "=" in option or not option.startswith("-")
        if re.fullmatch(r"\$\{?\w{1,40}\}?", text) and is_bare:
            problem = f"it names its model by {text}, and the text does not say what that is"
            attempt = f"enginehouse migrate 'vllm serve Qwen/Qwen3-8B', with your model's name in the place of {text}"
            raise _refused(problem, text, attempt)
    raise _refused("it names no model", f"{nameless.engine.title} with {' '.join(options) or 'no options'}"[:120])


def _placed(server: Server) -> tuple[Settings, list[Finding]]:
    """The settings in a server's words, and a finding for each word."""
    call = Settings(port=server.engine.port, kind=server.engine.kind)
    findings = [*_of_args(server, call), *_of_variables(server, call)]
    listening = str(call.port)
    findings += of_docker(server, call, listening)
    if server.container:
        findings += of_container(server.container, call, listening)
        findings += _storage(server.container, call)
    findings += [Finding(name, why=VARIABLES.get(name, "its value was not seen")) for name in server.files]
    findings += [_assigned(text) for text in server.assigned]
    findings += [Finding(masked(line), place=UNIT) for line in server.unit]
    findings += [
        Finding(f"command {name}", why="not read here", is_known=False) for name in dict.fromkeys(server.others)
    ]
    if server.engine.takes_every_gpu and not call.parallel:
        call.gpus = max(call.gpus, call.host_gpus, len(call.devices))
    if call.gpus > call.host_gpus > 0:
        seen = f"{call.gpus} GPUs, {call.host_gpus} a host"
        findings.append(
            Finding(seen, why="one LLM over several hosts: Parallel(hosts=(…)), each with a Server of its name")
        )
    if not call.repository and server.engine is NIM and NIM.image.search(server.image):
        findings.append(of_nim(server.image, call))
    return call, findings


def _written(call: Settings, findings: list[Finding]) -> Migration:
    source = source_of(call.repository, call.mounts)
    known = known_checkpoint(source)
    by_name = kind_by_name(source)
    is_reranker = call.kind == "embedder" and by_name == "reranker"  # TEI and pooling servers have both kinds
    kind = kind_of(known) if known else by_name if is_reranker else call.kind or by_name
    if known is None and HUB_NAME.fullmatch(source.repository):
        findings = [of_branch(finding, source, call) for finding in findings]
    if call.adapters:
        findings.append(Finding("--lora-modules", why="each adapter's commit and rank: LoRA(adapters=(Adapter(…),))"))
    findings += of_source(source, known, call)
    if kind == "llm":
        if reason := reason_for_vllm(source, known, call, DEFAULT_RELEASE):
            findings = serve_with_vllm(findings, source, known, call)
            findings.append(program_finding(reason, call))
        else:
            findings = [as_published(finding, source, known, call) for finding in findings]
        findings = [*(_of_llm(finding) for finding in findings), *_whole_prompts(call, known)]
    else:
        findings = [_of_encoder(finding) for finding in findings]
        if not known and (not call.kind or is_reranker):
            findings.append(
                Finding(call.repository, place=f"{kind.capitalize()}(…), by its name: LLM(…) if it is none")
            )
    return Migration(tuple(findings), inventory_text(call, source, known, kind, DEFAULT_RELEASE))


def _of_encoder(finding: Finding) -> Finding:
    """The finding for an embedder or a reranker, which do not have an LLM's arguments."""
    if finding.words.startswith(("--max-model-len", "--context-length", "NIM_MAX_MODEL_LEN")):
        return Finding(finding.words, place=finding.place.replace("max_seq_len", "max_tokens"), why=finding.why)
    if finding.place.startswith(OF_LLMS) and not finding.place.startswith(OF_ENCODERS):
        why = "encoders have no such setting: passes are filled by tokens, nothing is cached"
        return Finding(finding.words, why=why)
    return finding


def _of_llm(finding: Finding) -> Finding:
    """The finding for an LLM, which does not have an encoder's arguments."""
    if finding.place.startswith(OF_ENCODERS):
        return Finding(finding.words, why="an LLM has max_num_tokens and max_batch_size instead")
    return finding


def _whole_prompts(call: Settings, known: KnownCheckpoint | None) -> list[Finding]:
    """Other servers split long prompts by default; here an iteration needs room for them, or an explicit setting."""
    length = int(call.model.get("max_seq_len", LLM.max_seq_len))
    room = int(call.model.get("max_num_tokens", LLM.max_num_tokens))
    if length <= room or "chunked_prefill" in call.model:
        return []
    if known and not ARCHITECTURES[known.shape.architecture].chunked_prefill:
        call.model["max_num_tokens"] = str(length)
        return [Finding("prompts in parts", place=f"max_num_tokens={length:,}: this model takes a prompt whole")]
    call.model["chunked_prefill"] = "True"
    return [Finding("prompts in parts", place="chunked_prefill=True: the other server does so unasked")]


def _of_args(server: Server, call: Settings) -> Iterator[Finding]:
    for option in argparse_options(server.args):
        name = option.name.replace("_", "-") if option.name.startswith("--") else option.name
        alone = server.engine.stands_alone(server.engine.renamed.get(name, name)) or server.engine.stands_alone(name)
        values = option.values
        if not name or (alone and values and not option.is_attached):
            yield from _of_words(server, call, values)
            values = ()
        elif _has_a_model(server, call, name, values):
            yield from _of_words(server, call, values[1:])
            values = values[:1]
        if server.engine.renamed.get(name, name) == "--data-parallel-size" and _shares_ranks(server):
            yield Finding(f"{name} {option.value}".strip(), why=SAME_GPUS)
        elif name:
            kept = Option(name, values, option.raw, option.is_attached)
            yield _finding(server, kept, name, call)


def _shares_ranks(server: Server) -> bool:
    """True if data-parallel groups of this server use the GPUs of its tensor-parallel group."""
    words = {word.text.replace("_", "-") for word in server.args}
    return bool(server.engine.shares_ranks) and server.engine.shares_ranks in words


def _has_a_model(server: Server, call: Settings, name: str, values: tuple[Word, ...]) -> bool:
    """True if the word after an option's value is the model: `vllm serve --config file.yaml OWNER/NAME`."""
    is_extra = len(values) > 1 and name not in SEVERAL and not server.engine.stands_alone(name)
    return is_extra and server.engine.takes_a_word and not call.repository and is_model(values[1].text)


def _of_words(server: Server, call: Settings, words: tuple[Word, ...]) -> Iterator[Finding]:
    for place, value in enumerate(words):
        if (
            place == 0
            and server.engine.takes_a_word
            and not call.repository
            and is_model(value.text)
            and not value.varies
        ):
            call.repository = value.text
        elif value.varies:
            yield Finding(value.text, why="its value is known only when the shell runs it")
        else:
            yield Finding(masked(value.text), why="belongs to no option", is_known=False)


def _finding(server: Server, option: Option, written: str, call: Settings) -> Finding:
    """The finding about an option; `written` is its spelling in the text."""
    name = server.engine.place_of(option.name)
    is_secret = name in SECRET or SECRET_NAME.search(written) is not None
    text = written if is_secret else " ".join([written, *(masked(value.text) for value in option.values)])
    if option.varies and not is_secret:
        return Finding(text, why="its value is known only when the shell runs it")
    why = server.engine.reason(name) or server.engine.reason(option.name)
    if name in EVERY and not server.engine.no_place.get(name):
        place, missing = EVERY[name](call, _translated(server, option, name))
        return Finding(text, place, missing)
    base = name.split(".")[0]
    if why or base in ("--speculative-config", "--structured-outputs-config"):
        return Finding(text, why=why or f"only {base} as JSON was read")
    known = [*server.engine.renamed, *server.engine.no_place] or [*PLACES, *NO_PLACE]
    close = nearest(option.name, known)
    return Finding(text, why=f"not read here{f'; near {close}' if close else ''}", is_known=False)


def _translated(server: Server, option: Option, name: str) -> Option:
    """The option under its vLLM name, with vLLM's form of the value."""
    values = tuple(
        Word(text, text) if (text := server.engine.values.get((name, value.text))) else value for value in option.values
    )
    return Option(name, values, option.raw, option.is_attached)


def _of_variables(server: Server, call: Settings) -> Iterator[Finding]:
    """Variables with the meaning of an option, as that option; and the other variables."""
    others: list[tuple[str, str]] = []
    for name, value in dict(server.variables).items():
        flag = _flag_of(server, name)
        if not flag or not value:
            others.append((name, value))
        elif flag == "--passthrough":
            inner = Server(engine=server.engine, args=tuple(word(shlex.quote(part)) for part in value.split()))
            yield from _of_args(inner, call)
        else:
            typed = Word(value, value) if "$" in value else word(shlex.quote(value))
            finding = _finding(server, Option(flag, (typed,), ()), name, call)
            yield replace(finding, words=finding.words.replace(f"{name} ", f"{name}=", 1))
    yield from of_variables(tuple(others))


def _flag_of(server: Server, name: str) -> str:
    """The option with a variable's meaning; empty without such an option."""
    if name == "NIM_PASSTHROUGH_ARGS":
        return "--passthrough"
    if name in server.engine.variables:
        return server.engine.variables[name]
    begin = server.engine.variables_begin
    flag = "--" + name.removeprefix(begin).lower().replace("_", "-")
    if begin and name.startswith(begin) and (flag in PLACES or flag in NO_PLACE):
        return flag
    is_option = flag in server.engine.renamed or flag in server.engine.no_place
    return flag if server.engine.says_options_in_variables and is_option and flag not in SECRET else ""


def _assigned(text: str) -> Finding:
    """The finding about a variable of the script, whose value was put in wherever the script uses it."""
    name, _, value = text.partition("=")
    shown = name if SECRET_NAME.search(name) else masked(text)
    return Finding(shown, place=f"put in for ${name}") if value else Finding(shown, why="it is empty")


def _storage(container: Container, call: Settings) -> Iterator[Finding]:
    """The model that KServe loads from a storage, if no option names a model."""
    model = fields_of(container.owner, "spec", "model")
    for key, uri in (("storageUri", container.settings.get("storageUri")), ("model.uri", model.get("uri"))):
        if isinstance(uri, str) and uri and not call.repository:
            call.repository = uri
            name = model.get("name")
            call.names = call.names or ((name,) if isinstance(name, str) and key == "model.uri" else ())
            yield Finding(f"{key}: {uri}", place="weights")


def _refused(problem: str, seen: str, attempt: str = "") -> Exception:
    attempt = attempt or (f"enginehouse migrate 'vllm serve {seen}'" if HUB_NAME.fullmatch(seen) else "")
    return refuse(
        "no-server",
        problem,
        where="enginehouse migrate",
        seen=seen,
        wanted="a command, docker run, script, compose file or manifest that starts vLLM, SGLang, TGI, TEI, NIM, or"
        " another server with weights of a hub",
        attempt=attempt or "enginehouse migrate 'vllm serve Qwen/Qwen3-8B --max-model-len 32k'",
    )
