"""Files and listings that a stranger wrote: every nesting, type, name and length is refused in bounded time.

More than 300 lines, because the readers of all programs are tried with the same contents.
"""

from __future__ import annotations

import ast
import http.client
import io
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.cost.share import spent_by
from deploy.inventory.gateway_keys import file_in
from deploy.io import bundle_serve, hub, prometheus, registry
from deploy.io.cost import audit_lines, read_json
from deploy.io.deadline import within
from deploy.io.engine_records import read_ledger
from deploy.io.fit_models import _of_directory
from deploy.io.hosts import ansible_hosts, terraform_hosts
from deploy.linter import check
from deploy.linter.words import here_documents, pasted, without_here_documents
from deploy.migrate.migration import migrate
from deploy.migrate.reading import servers_of
from deploy.migrate.variables import MOST_FILLED, MOST_USES, MOST_VALUE
from deploy.refusals.errors import Refusal
from host import fetch, loopback, metrics, publish
from host.hub import Refused, shards_in

ROOT = Path(__file__).parents[2]
DEEP = '{"value":' * 100_000


def test_every_reader_of_json_expects_deep_nesting() -> None:
    """Python reads some thousand brackets, and then raises RecursionError, which is not a ValueError."""
    folders = ("deploy", "roles", "files/host", "files/gateway")
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert [place for path in paths for place in readers_without_it(path)] == []


def readers_without_it(path: Path) -> list[str]:
    """Lines that expect a ValueError of json.loads, and no RecursionError."""
    places = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Try) and any(map(reads_json, node.body)):
            names = " ".join(ast.unparse(entry.type) for entry in node.handlers if entry.type)
            if "ValueError" in names and "RecursionError" not in names and "MALFORMED" not in names:
                places.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return places


def reads_json(line: ast.stmt) -> bool:
    return any(isinstance(node, ast.Attribute) and ast.unparse(node) == "json.loads" for node in ast.walk(line))


@pytest.mark.parametrize(
    "read",
    [
        lambda file: terraform_hosts(str(file), "h100"),
        read_json,
        lambda file: list(read_ledger(file.parents[1])),
        lambda file: _of_directory("weights", file.parent),
        lambda file: file_in(file.read_text(), "keys.json"),
    ],
)
def test_a_file_of_many_brackets_is_refused(read: Callable[[Path], object], tmp_path: Path) -> None:
    file = tmp_path / "model" / "config.json"
    file.parent.mkdir()
    file.write_text(DEEP)
    with pytest.raises(Refusal):
        read(file)


@pytest.mark.parametrize(
    "template",
    [
        "lookup('pipe', 'touch {0}/ran')",
        "query('ansible.builtin.pipe', 'touch {0}/ran')",
        "q('lines', 'touch {0}/ran')",
        "lookup('file', '{0}/secret')",
        "'{0}'.__class__.__mro__",
    ],
)
def test_an_ansible_inventory_runs_no_program_and_reads_no_other_file(template: str, tmp_path: Path) -> None:
    """Earlier, planning a foreign inventory ran its program on the operator's machine."""
    (tmp_path / "secret").write_text("gpu-7")
    hosts = {"one": {"ansible_host": f"{{{{ {template.format(tmp_path)} }}}}"}}
    (tmp_path / "hosts.json").write_text(json.dumps({"chat": {"hosts": hosts}}))
    with pytest.raises(Refusal, match="not an Ansible inventory that can be read here"):
        ansible_hosts(str(tmp_path / "hosts.json"), "chat")
    assert not (tmp_path / "ran").exists()


def test_an_ansible_inventory_may_look_into_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_OF_TEST", "gpu-7")
    hosts = {"one": {"ansible_host": "{{ lookup('env', 'HOST_OF_TEST') }}"}}
    (tmp_path / "hosts.json").write_text(json.dumps({"chat": {"hosts": hosts}}))
    assert ansible_hosts(str(tmp_path / "hosts.json"), "chat") == [("one", {"ssh_hostname": "gpu-7"})]


def test_outputs_of_terraform_are_read_once(tmp_path: Path) -> None:
    """An output of 60,000 names took minutes."""
    names = {f"host{number}": {"sensitive": False, "type": "string", "value": "gpu-1"} for number in range(60_000)}
    (tmp_path / "hosts.json").write_text(json.dumps(names))
    assert terraform_hosts(str(tmp_path / "hosts.json"), "host59999") == [("gpu-1", {})]
    (tmp_path / "twice.json").write_text('{"a": {}, "b": {}, "a": {}}')
    with pytest.raises(Refusal, match="names a twice"):
        terraform_hosts(str(tmp_path / "twice.json"), "a")


@pytest.mark.parametrize("count", ["-5", "1" + "0" * 400, "1e999", '"5"', DEEP])
def test_a_line_of_audit_with_an_absurd_count_adds_nothing(count: str, tmp_path: Path) -> None:
    """The lines come from hosts; their sums divide the bill between tenants."""
    good = '{"tenant": "a", "model": "m", "prompt_tokens": 7, "completion_tokens": 2}\n'
    (tmp_path / "audit").write_text(f'{{"tenant": "a", "model": "m", "prompt_tokens": {count}}}\n{good}')
    (row,) = spent_by(audit_lines(tmp_path / "audit"))
    assert (row.prompt_tokens, row.completion_tokens) == (7, 2)


NAMED: dict[str, Any] = {"rfilename": "model.safetensors"}


@pytest.mark.parametrize(
    "entry",
    [
        5,
        {},
        {"rfilename": 5},
        NAMED,
        NAMED | {"size": "5"},
        NAMED | {"size": -1},
        NAMED | {"size": 10**30},
        NAMED | {"size": True},
        NAMED | {"size": 5, "lfs": {"size": [1]}},
        {"rfilename": f"model\n{'0' * 64}  other.safetensors", "size": 5},
        {"rfilename": "a\0.safetensors", "size": 5},
        {"rfilename": "a\u2028b.safetensors", "size": 5},
    ],
)
def test_an_entry_of_a_listing_in_no_known_form_is_refused(entry: Any) -> None:
    """A name with a line end would be two lines of the manifest."""
    with pytest.raises(Refused):
        fetch.chosen([entry], ["*.safetensors"])
    assert fetch.chosen([NAMED | {"size": 5, "lfs": [1]}], ["*.safetensors"])[0].size == 5


class Endless(io.RawIOBase):
    """An answer without an end."""

    status = 200

    def read(self, size: int = -1) -> bytes:
        """Returns `size` bytes, at every call."""
        assert size >= 0, "the whole answer is asked for"
        return b"a" * size


def test_a_file_is_received_to_its_listed_size(tmp_path: Path) -> None:
    """More bytes would fill the disk."""
    wanted = fetch.WantedFile("a", 10, "", "")
    fetch.receive(lambda *_: Endless(), wanted, tmp_path / "a", 0, fetch.Progress(10))
    assert (tmp_path / "a").read_bytes() == b"a" * 10


def test_a_layer_is_not_parsed_as_a_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host may name any layer as its manifest; this machine would hold gigabytes."""
    statuses: list[int] = []
    handler: Any = bundle_serve.Handler.__new__(bundle_serve.Handler)
    handler.blobs = {"a" * 64: 10 * 2**30, "b" * 64: 20}
    handler.store = type("Store", (), {"read": lambda _, sha256: iter([DEEP.encode()] if sha256[0] == "b" else None)})()
    monkeypatch.setattr(handler, "_lacking", lambda is_head: statuses.append(404))
    monkeypatch.setattr(handler, "_send", lambda sha256, size, is_head, headers: statuses.append(200))
    for letter in "ab":
        handler._blob(letter * 64, False, is_manifest=True)
    assert statuses == [404, 200]
    assert not bundle_serve.RANGE.fullmatch(f"bytes={'9' * 5000}-")
    assert bundle_serve.Handler.timeout, "a host's idle connections end"


def test_docker_s_registry_parses_manifests_alone(tmp_path: Path) -> None:
    """The registry is on loopback, where every user of the host can request a layer as a manifest."""
    names = {"layer": "a" * 64, "strange": "b" * 64, "index": "c" * 64}
    with (tmp_path / names["layer"]).open("wb") as layer:
        layer.truncate(2**34)
    (tmp_path / names["strange"]).write_text(DEEP)
    (tmp_path / names["index"]).write_text('{"mediaType": "text/html\\r\\nX: y", "manifests": []}')
    with loopback.serving(tmp_path, 0) as port:
        answers = {}
        for name, sha256 in names.items():
            line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            line.request("HEAD", f"/v2/a/manifests/sha256:{sha256}")
            answer = line.getresponse()
            answers[name] = answer.status, answer.headers["Content-Type"], answer.headers["X"]
            line.close()
    assert answers["layer"][0] == 404
    assert answers["strange"] == (200, "application/octet-stream", None)
    assert answers["index"] == (200, bundle_serve.INDEX, None)


def test_root_reads_a_manifest_of_another_user_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / publish.MANIFEST).write_text(f"{'0' * 64}  model.safetensors\n")
    assert publish.manifest(tmp_path) == {"model.safetensors": "0" * 64}
    monkeypatch.setattr(publish, "MOST_BYTES", 50)
    with pytest.raises(ValueError, match="has more than"):
        publish.manifest(tmp_path)


@pytest.mark.parametrize("index", [DEEP, "[]", "{}", '{"weight_map": 5}', '{"weight_map": [1]}', "\0"])
def test_an_index_of_no_known_form_is_refused(index: str) -> None:
    with pytest.raises(Refused, match="no weight_map"):
        shards_in(index.encode(), "model.safetensors.index.json")


@pytest.mark.parametrize(
    "text",
    [
        "docker run " + "\\\n" * 50_000,
        "docker run " + "a \\\n" * 50_000,
        "cat <<A\n" * 50_000,
        "docker run -v " + "a:b," * 200_000,
        "$" * 900_000,
        "${A:-" * 100_000,
        "'\"\n" * 200_000,
    ],
    ids=["continuations", "words", "here-documents", "a long word", "a word of dollars", "open braces", "quotes"],
)
def test_a_pasted_text_is_cut_in_linear_time(text: str) -> None:
    """Earlier, 600 KB of continued lines took minutes."""
    assert isinstance(pasted(text), list)
    assert list(here_documents(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve Qwen/Qwen3-8B " + " ".join(f"--option-{number}" for number in range(200_000)),
        "services:\n  a:\n    image: vllm/vllm-openai\n" + "".join(f"    key{number}: 1\n" for number in range(9_000)),
    ],
    ids=["options", "keys"],
)
def test_a_text_with_very_many_names_is_not_compared_name_by_name(text: str) -> None:
    """A command with 200,000 unknown options took minutes."""
    assert "different" in str(check(text))
    with pytest.raises(Refusal, match="more different names"):
        migrate(text)


@pytest.mark.parametrize(
    "text",
    [
        "A=xx\n" + "A=$A$A\n" * 24 + "vllm serve $A\n",
        "A=" + "x" * 100_000 + "\nvllm serve " + "$A " * 200 + "\n",
        "A=" + "x" * 2000 + "\nvllm serve " + "$A" * 10_000 + "\n",
        "A=" + "x" * 2000 + "\nvllm serve " + "$A " * 10_000 + "\n",
        "A=(" + "x " * 50_000 + ")\nvllm serve " + '"${A[@]}" ' * 200 + "\n",
    ],
    ids=["doubled", "long", "a word", "words", "an array"],
)
def test_variables_of_a_pasted_text_add_few_characters(text: str) -> None:
    """`A=$A$A` in 40 lines has a terabyte (2026-11-28)."""
    (server,) = servers_of(text)
    assert sum(len(word.text) for word in server.args) <= len(text) + MOST_FILLED + MOST_USES * MOST_VALUE


@pytest.mark.parametrize("deep", ["a: " + "[" * 70_000, "a: " + "{a: " * 30_000, "a:\n" + "- " * 70_000 + "x"])
def test_a_deep_file_of_containers_is_not_yaml(deep: str) -> None:
    """libyaml's own composer ended Python with a crash (2026-11-28)."""
    assert "cannot be read as YAML" in str(check(f"services:\n  x:\n    image: a/b\n{deep}\n"))


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve a/b " + "--config=" * 50_000 + "\n",
        "vllm serve a/b\nx " + 'a="" ' * 100_000 + "\n",
        'option.model_id=a/b\nx = "' + "a" * 90_000 + '"\n',
    ],
    ids=["options", "recipe", "image"],
)
def test_a_long_line_is_searched_once(text: str) -> None:
    """Earlier patterns searched the rest of the line from every character, which took minutes (2026-11-28)."""
    assert migrate(text).inventory


def test_a_long_row_of_services_that_extend_each_other_is_read() -> None:
    rows = [f"  s{place}:\n    image: vllm/vllm-openai:v1\n    extends: s{place + 1}\n" for place in range(1000)]
    text = f"services:\n{''.join(rows)}    command: --model Qwen/Qwen3-8B\n"
    assert "nothing" in str(check(text)) and migrate(text).inventory


def test_a_pasted_script_keeps_its_own_variables() -> None:
    (server,) = servers_of('A=(--port 1)\nA+=(--seed 2)\nM=a/b\nvllm serve $M "${A[@]}"\n')
    assert [word.text for word in server.args] == ["a/b", "--port", "1", "--seed", "2"]


def test_here_documents_end_at_the_next_line_of_their_word() -> None:
    text = "cat <<A\n1\nA\ncat <<A\n2\nA\ncat <<B\n3\nA\n"
    assert [document.body for document in here_documents(text)] == ["1", "2"]
    assert without_here_documents(text) == "cat <<A\n\n\ncat <<A\n\n\ncat <<B\n3\nA\n"


def test_an_answer_that_drips_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte restarts urllib's own time limit."""
    never = threading.Event()
    with pytest.raises(TimeoutError, match="no whole answer"):
        within(0.01, never.wait)
    with pytest.raises(KeyError):
        within(60, {}.popitem)
    assert within(60, lambda: 5) == 5
    for module in (hub, registry, prometheus):
        monkeypatch.setattr(module, "within", lambda seconds, call: (_ for _ in ()).throw(TimeoutError("too slow")))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with pytest.raises(Refusal, match="too slow"):
        prometheus.asker("http://prometheus")("up")
    with pytest.raises(Refusal, match="too slow"):
        registry.digest_of("nvcr.io/nvidia/triton:1", registry.Login())
    with pytest.raises(Refusal, match="too slow"):
        hub._get(hub.Access(), "/", "a/b")
    never.set()


@pytest.mark.parametrize(("most", "until"), [(100, float("inf")), (2**30, 0.0)])
def test_a_page_of_metrics_ends_by_its_size_and_time(most: int, until: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page occupies a thread of the relay."""
    monkeypatch.setattr(metrics, "LARGEST_BYTES", most)
    page = type("Page", (), {"read1": lambda *_: b"a" * 90})()
    with pytest.raises(OSError, match="incomplete after"):
        metrics.whole(page, until)


def test_an_exporter_that_speaks_no_http_is_a_bad_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = []
    page: Any = metrics.Page.__new__(metrics.Page)
    page.server = type("Server", (), {"pages": {"/dcgm": "http://127.0.0.1:9400/metrics"}})()
    page.path, page.headers = "/dcgm", {}

    def speak(*_: object, **__: object) -> None:
        raise http.client.BadStatusLine("x")

    monkeypatch.setattr(metrics, "DIRECT", type("Opener", (), {"open": speak}))
    monkeypatch.setattr(page, "answer", lambda status, *_: answers.append(status))
    page.do_GET()
    assert answers == [502]
