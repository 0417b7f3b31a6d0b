"""The rehearsal's services, started on their own loopback address and asked by the real clients."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal import registry, services
from rehearsal.places import Places
from rehearsal.services import Services, services_down, services_up
from rehearsal.triton_image import MANIFEST_TYPE, REPOSITORY
from roles.model_store.manifest import spoiled

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("numbers-8-and-9")]

ADDRESS = "127.0.0.9"  # beside those of a rehearsal that may be running


@pytest.fixture(scope="module")
def served() -> Iterator[Services]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_REHEARSAL_NUMBER", "9")
        yield services_up(ADDRESS)
        services_down()


def pids(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in folder.glob("*.pid")}


def at(url: str) -> str:
    """Returns the URL with the services' IP address, since only machines resolve the names."""
    scheme, rest = url.split("://")
    return f"{scheme}://{ADDRESS}:{rest.split(':')[1]}"


def test_a_second_start_starts_nothing(served: Services) -> None:
    folder = Places.here().root / "services"
    before = pids(folder)
    assert len(before) == 4
    services_up(ADDRESS)
    assert pids(folder) == before


def test_the_written_services_can_be_read_back(served: Services) -> None:
    assert services.read_services() == served


def test_no_secret_is_in_any_process_arguments_or_log(served: Services) -> None:
    folder = Places.here().root / "services"
    lines = [Path(f"/proc/{pid.split()[0]}/cmdline").read_text() for pid in pids(folder).values()]
    logs = [path.read_text(errors="replace") for path in folder.glob("*.log")]
    assert not any(secret in text for text in lines + logs for secret in (served.ngc_key, served.hub_token))


# The apt repository


@pytest.fixture(scope="module")
def apt(served: Services, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns an environment in which apt knows only the three repositories, each signed by the published key."""
    state = tmp_path_factory.mktemp("apt")
    for folder in ("lists/partial", "cache/archives/partial", "parts"):
        (state / folder).mkdir(parents=True)
    url, signed = at(served.apt_url), f"[arch=amd64 signed-by={served.apt_key_file}]"
    (state / "parts/rehearsal.list").write_text(
        f"deb {signed} {url}/compute/cuda/repos/debian12/x86_64/ /\n"
        f"deb {signed} {url}/linux/debian bookworm stable\n"
        f"deb {signed} {url}/libnvidia-container/stable/deb/amd64 /\n"
    )
    lines = {
        "Dir::State::lists": state / "lists", "Dir::State::status": "/dev/null", "Dir::Cache": state / "cache",
        "Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": state / "parts", "Dir::Etc::parts": "/dev/null",
        "Dir::Etc::main": "/dev/null", "APT::Sandbox::User": "root", "Acquire::Languages": "none",
    }  # fmt: skip
    (state / "apt.conf").write_text("".join(f'{name} "{value}";\n' for name, value in lines.items()))
    surroundings = {**os.environ, "APT_CONFIG": str(state / "apt.conf")}
    subprocess.run(["apt-get", "-q", "update", "--error-on=any"], env=surroundings, check=True, capture_output=True)
    return surroundings


@pytest.mark.parametrize(
    ("package", "versions"),
    [
        ("nvidia-driver-cuda", ["595.91.07-1", "580.178.04-1", "580.95.05-1"]),
        ("nvidia-container-toolkit-base", ["1.20.0-1", "1.19.1-1"]),
        ("nvidia-driver-pinning-580", ["580-1"]),
    ],
)
def test_apt_trusts_the_repositories_and_finds_every_version(
    apt: dict[str, str], package: str, versions: list[str]
) -> None:
    listed = subprocess.run(
        ["apt-cache", "madison", package], env=apt, check=True, capture_output=True, text=True
    ).stdout
    assert [line.split("|")[1].strip() for line in listed.splitlines()] == versions


def test_the_headers_of_this_kernel_can_be_had(apt: dict[str, str]) -> None:
    printed = subprocess.run(
        ["apt-cache", "pkgnames", "linux-headers-"], env=apt, check=True, capture_output=True, text=True
    )
    assert printed.stdout.strip() == f"linux-headers-{os.uname().release}".lower().replace("_", "-")


# The registry


def ask_registry(served: Services, key: str | None, path: str) -> tuple[int, dict[str, str]]:
    request = urllib.request.Request(f"https://{ADDRESS}:{registry.PORT}{path}", headers={"Accept": MANIFEST_TYPE})
    if key is not None:
        login = base64.b64encode(f"$oauthtoken:{key}".encode()).decode()
        request.add_header("Authorization", f"Basic {login}")
    context = ssl.create_default_context(cafile=str(served.registry_ca_file))
    try:
        with urllib.request.urlopen(request, context=context, timeout=300) as answer:
            return answer.status, dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers)


def manifest(served: Services) -> str:
    return f"/v2/{REPOSITORY}/manifests/{served.image_digest}"


@pytest.mark.parametrize(("key", "status"), [(None, 401), ("nvapi-wrong", 401)])
def test_the_registry_requires_a_login(served: Services, key: str | None, status: int) -> None:
    assert ask_registry(served, key, manifest(served))[0] == status


def test_the_image_is_found_by_its_digest(served: Services) -> None:
    status, headers = ask_registry(served, served.ngc_key, manifest(served))
    assert (status, headers["Docker-Content-Digest"]) == (200, served.image_digest)


def test_a_key_without_access_logs_in_and_pulls_nothing(served: Services) -> None:
    key = (Places.here().root / "secrets/ngc_key_without_access").read_text()
    assert [ask_registry(served, key, path)[0] for path in ("/v2/", manifest(served))] == [200, 403]


def test_a_sporadic_401_passes_by_itself(served: Services) -> None:
    (Places.here().root / "services/fault-sporadic-401").write_text("2")
    assert [ask_registry(served, served.ngc_key, manifest(served))[0] for _ in range(3)] == [401, 401, 200]


# The hub, asked by the real client


def download(served: Services, home: Path, repository: str, token: str = "", url: str = "", **options: object) -> str:
    """Returns the folder from huggingface_hub, or the name of its exception; `url` is another address of the hub."""
    program = (
        "import json, sys\nfrom huggingface_hub import snapshot_download\n"
        "try: print(snapshot_download(**json.loads(sys.argv[1])))\n"
        "except Exception as trouble: print(type(trouble).__name__)\n"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    settings = {"HF_ENDPOINT": at(url or served.hub_url), "HF_HOME": str(home), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    settings |= {"SSL_CERT_FILE": str(served.registry_ca_file)} if url else {}
    words = json.dumps({"repo_id": repository, **options})
    surroundings = {**clean, **settings} | ({"HF_TOKEN": token} if token else {})
    result = subprocess.run(
        [sys.executable, "-c", program, words], env=surroundings, check=True, capture_output=True, text=True
    )
    return result.stdout.strip().splitlines()[-1]


def test_huggingface_hub_fetches_a_pinned_revision_byte_for_byte(served: Services, tmp_path: Path) -> None:
    name = "rehearsal/nomic-moe"
    folder = Path(download(served, tmp_path, name, revision=served.revisions[name]))
    for file in ("model.safetensors", "tokenizer.json", "1_Pooling/config.json"):
        assert (folder / file).read_bytes() == (served.checkpoints / "nomic-moe" / file).read_bytes()


def test_files_that_huggingface_hub_fetched_match_the_hubs_checksums(served: Services, tmp_path: Path) -> None:
    folder = Path(download(served, tmp_path, "rehearsal/nomic-moe", local_dir=str(tmp_path / "there")))
    names = ["1_Pooling/config.json", "config.json", "model.safetensors"]
    assert spoiled(folder, names, tmp_path / "sums") == []
    for name in names[1:]:
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert spoiled(folder, names, tmp_path / "sums") == names[1:]


def test_huggingface_hub_fetches_the_gated_model_with_the_token(served: Services, tmp_path: Path) -> None:
    wanted = ["*.json", "model-*.safetensors"]
    folder = download(served, tmp_path, "rehearsal/gpt-oss-tiny", served.hub_token, allow_patterns=wanted)
    assert (Path(folder) / "model-00002-of-00002.safetensors").exists()


def test_the_hub_serves_the_same_over_tls(served: Services, tmp_path: Path) -> None:
    """Inventories name the hub by TLS, since a token in plain text is refused. Large files also use TLS."""
    wanted = ["*.json", "model-*.safetensors"]
    url, token = served.hub_tls_url, served.hub_token
    folder = Path(download(served, tmp_path, "rehearsal/gpt-oss-tiny", token, url, allow_patterns=wanted))
    name = "model-00002-of-00002.safetensors"
    assert (folder / name).read_bytes() == (served.checkpoints / "gpt-oss-tiny" / name).read_bytes()


@pytest.mark.parametrize(
    ("repository", "token", "revision", "error"),
    [
        ("rehearsal/gpt-oss-tiny", "", "main", "GatedRepoError"),
        ("rehearsal/none", "right", "main", "RepositoryNotFoundError"),
        ("rehearsal/minilm", "right", "0" * 40, "RevisionNotFoundError"),
    ],
)
def test_huggingface_hub_distinguishes_the_refusals(
    served: Services, tmp_path: Path, repository: str, token: str, revision: str, error: str
) -> None:
    token_or_none = served.hub_token if token else ""
    assert download(served, tmp_path, repository, token_or_none, revision=revision) == error
