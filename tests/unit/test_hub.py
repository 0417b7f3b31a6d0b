"""Requests to a hub for commit, files, sizes and headers: the hub is correct, refusing, busy, interrupted or wrong."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.io import hub as hub_client
from deploy.io.hub import Access, resolve
from deploy.io.local_weights import tensors
from deploy.io.registry import SameHostOnly
from deploy.refusals.errors import Refusal
from tests.unit.hubs import LLAMA, STRANGER, TOKEN, Standing, llama_files, repository, standing, weights

NAME = "rehearsal/llama-1b"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """A hub with a model in two shards, a gated model, and four repositories without a checkpoint."""
    root = tmp_path_factory.mktemp("hub")
    repository(root / "models/llama-1b", LLAMA, llama_files(header_bytes=200_000))
    repository(root / "models/gpt-oss-tiny", LLAMA, llama_files())
    repository(root / "models/pickled", LLAMA, {"pytorch_model.bin": b"pickle"})
    repository(root / "models/llamafile", None, {"llama-Q4_K_M.gguf": b"GGUF"})
    repository(root / "models/adapter", None, {"adapter_config.json": b"{}", "adapter_model.safetensors": weights()})
    repository(root / "models/readme", None, {"README.md": b"soon"})
    with standing(root / "models", root / "state") as running:
        yield running


@pytest.fixture
def hub(made: Standing, monkeypatch: pytest.MonkeyPatch) -> Standing:
    """The hub without the state of other tests; its client pauses only as long as a test may."""
    monkeypatch.setattr(hub_client, "PAUSE_SECONDS", 0)
    made.heard.requests.clear()
    made.heard.busy.clear()
    made.heard.bodies.clear()
    made.heard.moved.clear()
    (made.state / "fault-cut-large").unlink(missing_ok=True)
    return made


def refusal(source: str, access: Access) -> Refusal:
    with pytest.raises(Refusal) as refused:
        resolve(source, access)
    return refused.value


def test_a_name_is_resolved_to_commit_files_sizes_and_numbers(hub: Standing) -> None:
    """Without a revision the commit is that of main; the files are those that a host fetches, without Python files."""
    files = resolve(NAME, hub.access())
    known = hub.repositories[NAME]
    assert (files.files.revision, files.files.repository) == (known.commit, NAME)
    assert dict(files.sizes) == {name: known.files[name].size for name in files.files.fetched}
    assert files.files.fetched == (
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer.json",
        "tokenizer_config.json",
    )
    assert (files.files.parameters, files.files.stored_bytes) == (1_235_814_400, 2_471_628_800)
    assert dict(files.files.config) == LLAMA


def test_of_weights_only_headers_are_asked_for(hub: Standing) -> None:
    """Every request for a shard has a range within the header, and only config.json is read whole."""
    resolve(NAME, hub.access())
    whole = [path for path, wanted in hub.heard.requests if not wanted]
    assert [path.rsplit("/", 1)[-1] for path in whole] == ["main", "config.json"]
    ends = [int(wanted.rpartition("-")[2]) for _path, wanted in hub.heard.requests if wanted]
    assert max(ends) == hub.repositories[NAME].files["model-00001-of-00002.safetensors"].size - 4096 - 1


def test_the_token_is_not_sent_to_the_other_host(hub: Standing) -> None:
    """The host of the large files refuses a request with both a token and a signature."""
    assert resolve("rehearsal/gpt-oss-tiny", hub.access(TOKEN)).files.parameters == 1_235_814_400


@pytest.mark.parametrize(
    ("source", "token", "seen", "attempt"),
    [
        ("rehearsal/gpt-oss-tiny", "", "401: gated", "accept its terms at ENDPOINT/rehearsal/gpt-oss-tiny, then Hub("),
        ("rehearsal/gpt-oss-tiny", STRANGER, "403: gated", "ask for access at ENDPOINT/rehearsal/gpt-oss-tiny"),
        ("rehearsal/none", "", "401: no such repository, or a private one", "check the name; for a private one Hub("),
        ("rehearsal/none", TOKEN, "404: no such repository", "check owner and name at ENDPOINT/rehearsal/none"),
        (f"{NAME}@v9", "", "404: the repository has no such commit, tag or branch", NAME),
        (NAME, "hf_wrong", "401: no such repository, or a private one", "check the name"),
    ],
)
def test_a_refusal_by_the_hub_is_named_with_a_remedy(
    hub: Standing, source: str, token: str, seen: str, attempt: str
) -> None:
    refused = refusal(source, hub.access(token))
    assert refused.facts["seen"].startswith(seen)
    assert refused.attempt.startswith(attempt.replace("ENDPOINT", hub.endpoint))
    assert token == "" or token not in str(refused)


def test_a_busy_hub_is_asked_again(hub: Standing) -> None:
    """The cases are 429, with a pause, with a date in the past and without, and 503."""
    hub.heard.busy += [(429, "0"), (429, "Wed, 21 Oct 2015 07:28:00 GMT"), (429, ""), (503, "")]
    assert resolve(NAME, hub.access()).files.parameters == 1_235_814_400


@pytest.mark.parametrize(("wait", "seconds"), [("3600", "3600"), ('"api";r=0;t=280', "281"), ("9" * 5000, "inf")])
def test_a_hub_that_asks_for_long_is_refused_with_its_word(hub: Standing, wait: str, seconds: str) -> None:
    """Cases: Retry-After, the header that huggingface.co sends in its place, and a number beyond every pause."""
    hub.heard.busy += [(429, wait)]
    refused = refusal(NAME, hub.access())
    assert refused.facts["seen"] == "429: too many requests"
    assert (refused.attempt, len(hub.heard.requests)) == (f"again after {seconds} seconds: what was read is kept", 1)


def test_a_renamed_repository_is_read_under_its_new_name(hub: Standing) -> None:
    """The hub redirects listing and files; the lock keeps the name that the inventory has."""
    hub.heard.moved["/former/llama/"] = f"/{NAME}/"
    resolved = resolve("former/llama", hub.access())
    assert (resolved.files.repository, resolved.name) == ("former/llama", NAME)
    assert resolved.files.parameters == 1_235_814_400


def test_a_mirror_that_redirects_to_the_hub_does_not_hand_on_its_token(hub: Standing, tmp_path: Path) -> None:
    """A public model is read through it; a gated one is refused, since the hub sees no token."""
    (tmp_path / "none").mkdir()
    with standing(tmp_path / "none", tmp_path / "state") as mirror:
        mirror.heard.moved |= {"/api/": f"{hub.endpoint}/api/", "/rehearsal/": f"{hub.endpoint}/rehearsal/"}
        assert resolve(NAME, mirror.access(TOKEN)).files.parameters == 1_235_814_400
        assert refusal("rehearsal/gpt-oss-tiny", mirror.access(TOKEN)).facts["seen"].startswith("401: gated")


def test_a_403_without_the_hub_s_code_names_a_proxy_too(hub: Standing) -> None:
    hub.heard.busy += [(403, "")]
    refused = refusal(NAME, hub.access(TOKEN))
    assert refused.facts["seen"] == "403: refused, by the hub for this token or by a proxy on the way"


@pytest.mark.parametrize("name", ["config.json", "extra.json"])
def test_a_list_of_5000_files_is_read(hub: Standing, name: str) -> None:
    known = hub.repositories[NAME]
    files = {file.name: file.size for file in known.files.values()} | {f"{i}/{name}": i for i in range(5000)}
    rows = [{"rfilename": file, "size": size} for file, size in files.items()]
    hub.heard.bodies["/revision/main"] = json.dumps({"sha": known.commit, "siblings": rows}).encode()
    files_read = resolve(NAME, hub.access()).files
    assert (files_read.parameters, "4999/config.json" in files_read.files) == (1_235_814_400, False)


PLAIN = json.dumps(LLAMA).encode()


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        (PLAIN.replace(b"{", b"{ // from an editor\n", 1), "no JSON: 'Expecting property name"),
        (PLAIN[:-1] + b",}", "no JSON: '"),
        (b"\xef\xbb\xbf" + PLAIN, "no JSON: 'Unexpected UTF-8 BOM"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 900\n", "no JSON: 'Expecting value"),
        (PLAIN[:-1] + b', "rope_theta": NaN, "time_step_limit": [0.0, Infinity]}', ""),
        (b'{"num_hidden_layers": 9, ' + PLAIN[1:], ""),  # the last of two equal keys counts, as for its loaders
        (PLAIN[:-1] + b', "notes": "' + b"x" * 2**20 + b'"}', ""),
    ],
)
def test_a_config_json_is_read_as_its_loaders_read_it(hub: Standing, config: bytes, fault: str) -> None:
    hub.heard.bodies["/config.json"] = config
    if fault:
        assert refusal(NAME, hub.access()).facts["seen"].startswith(fault)
    else:
        assert dict(resolve(NAME, hub.access()).files.config) == LLAMA


def test_a_hub_that_stays_busy_is_refused(hub: Standing) -> None:
    hub.heard.busy += [(503, "")] * 20
    assert refusal(NAME, hub.access()).facts["seen"] == "503: the hub has a problem of its own"
    assert len(hub.heard.requests) == hub_client.ATTEMPTS


def test_a_header_that_breaks_off_goes_on_where_it_was_cut(hub: Standing) -> None:
    """Two answers end after 1,000 bytes; the next range begins there."""
    (hub.state / "fault-cut-large").write_text("2 1000")
    assert resolve(NAME, hub.access()).files.parameters == 1_235_814_400
    assert any(wanted.startswith("bytes=1000-") for _path, wanted in hub.heard.requests)


@pytest.mark.parametrize(
    ("name", "seen", "attempt"),
    [
        ("pickled", "pytorch_model.bin", "a revision with safetensors: OWNER/NAME@refs/pr/N"),
        ("llamafile", "llama-Q4_K_M.gguf", "the repository that these were converted from; it has safetensors"),
        (
            "adapter",
            "adapter_config.json",
            "the base model as a model, and these as LoRA(adapters=(Adapter(…),)) of it",
        ),
        ("readme", "1 files, among them README.md", "a repository with config.json and model.safetensors"),
    ],
)
def test_a_repository_without_a_checkpoint_is_refused_by_its_kind(
    hub: Standing, name: str, seen: str, attempt: str
) -> None:
    """The refusal comes before the repository's headers are requested."""
    refused = refusal(f"rehearsal/{name}", hub.access())
    assert (refused.kind, refused.facts["seen"]) == ("no-checkpoint", seen) and refused.attempt.startswith(attempt)
    assert not [wanted for _path, wanted in hub.heard.requests if wanted]


LONGER = b'{"b":{"dtype":"BF16","shape":[9],"data_offsets":[0,99999]}}'
"""A header whose tensor ends beyond the listed file."""


@pytest.mark.parametrize(
    ("end", "body"),
    [
        ("/revision/main", b"[]"),
        ("/revision/main", b"<html>please log in</html>"),
        ("/revision/main", b'{"sha": "main", "siblings": []}'),
        ("/revision/main", b'{"sha": "%s", "siblings": [7]}' % (b"a" * 40)),
        ("/revision/main", b'{"sha": "%s", "siblings": [{"rfilename": "a", "size": "9"}]}' % (b"a" * 40)),
        ("/revision/main", b'{"sha": "%s", "siblings": [{"rfilename": "../a", "size": 9}]}' % (b"a" * 40)),
        ("/revision/main", b'{"sha": "%s", "siblings": [{"rfilename": "a\\u001b[2J", "size": 9}]}' % (b"a" * 40)),
        ("/revision/main", b'{"sha": "%s", "siblings": [{"rfilename": "a", "size": 1%s}]}' % (b"a" * 40, b"0" * 400)),
        ("/config.json", b"[" * 100_000),
        ("00002-of-00002.safetensors", b"\xff" * 100),
        ("00002-of-00002.safetensors", b"short"),
        ("00002-of-00002.safetensors", (6).to_bytes(8, "little") + b'{"a":}'),
        ("00002-of-00002.safetensors", (9).to_bytes(8, "little") + b'{"a": [1]'),
        ("00002-of-00002.safetensors", (59).to_bytes(8, "little") + LONGER),
    ],
)
def test_an_invalid_answer_is_refused_and_never_counted(hub: Standing, end: str, body: bytes) -> None:
    """Cases: a login page of a proxy, a list, an odd row or name, a false header, one of a longer file."""
    hub.heard.bodies[end] = body
    assert refusal(NAME, hub.access()).kind == "hub-answer"


def test_an_unreachable_hub_is_refused_with_the_alternatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_client, "PAUSE_SECONDS", 0)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        refused = refusal(NAME, Access(endpoint=f"http://127.0.0.1:{unused.getsockname()[1]}"))
    assert (refused.kind, "https_proxy" in refused.attempt) == ("hub-unreachable", True)


@pytest.mark.parametrize("shape", [[10**300], [2] * 17, [2**49], [-1], [True]])
def test_a_shape_that_no_tensor_has_is_not_counted(shape: list[int]) -> None:
    """A header of two thousand numbers of 4,000 digits took hours to multiply."""
    assert list(tensors(json.dumps({"a": {"dtype": "F16", "shape": shape}}).encode())) == []


@pytest.mark.parametrize("place", ["ftp://127.0.0.1:1/a", "file:///etc/passwd", "http://[bad"])
def test_a_redirect_to_no_web_address_is_not_followed(place: str) -> None:
    handler, request = SameHostOnly(), urllib.request.Request("https://hub.example/a")
    with pytest.raises(urllib.error.URLError, match="not a web address"):
        handler.redirect_request(request, None, 302, "Found", {}, place)


def test_no_code_of_a_repository_is_run_or_fetched(hub: Standing, tmp_path: Path) -> None:
    """The lock names the repository's Python files for reviewers, and hosts do not fetch them."""
    files = resolve(NAME, hub.access()).files
    assert ("modeling_own.py" in files.files, "modeling_own.py" in files.fetched) == (True, False)
    assert not [path for path, _wanted in hub.heard.requests if path.endswith(".py")]


def test_a_proxy_of_the_environment_is_the_way_out(hub: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in proxy answers for a host without an entry in any name server."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", hub.endpoint)
    hub_client._opener.cache_clear()
    files = resolve(NAME, Access(endpoint="http://hub.example.invalid")).files
    hub_client._opener.cache_clear()
    assert files.parameters == 1_235_814_400
    assert all(path.startswith(("http://hub.example.invalid/", "http://localhost:")) for path, _ in hub.heard.requests)


@pytest.mark.parametrize(
    ("access", "seen"),
    [
        (Access(endpoint="hf-mirror.example"), "'hf-mirror.example'"),
        (Access(endpoint="file:///etc"), "'file:///etc'"),
        (Access(ca_file="keys/none.pem"), "No such file"),
        (Access(ca_file=__file__), ""),
        (Access(token="hf_secret\nX-Other: 1"), "spaces, line ends"),
    ],
)
def test_a_hub_that_was_declared_wrongly_is_refused_before_it_is_asked(access: Access, seen: str) -> None:
    """The message has no traceback and no token."""
    refused = refusal(NAME, access)
    assert refused.kind == "hub-access" and seen in refused.facts["seen"] and "hf_secret" not in str(refused)
