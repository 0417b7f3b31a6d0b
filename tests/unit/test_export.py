"""User-data of `enginehouse export cloud-init`: valid, small enough, without secrets, or refused with the reason."""

from __future__ import annotations

import base64
import gzip
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from deploy.__main__ import main
from deploy.io.export import programs
from deploy.planning.plan import Plan
from deploy.refusals.errors import Refusal
from deploy.refusals.secrets_in_text import secret_in
from deploy.reports.cloud_init import LIMIT, Archive, UserData, user_data
from deploy.spec import Hub, Machine, Proxy, Registry, Secret
from tests.unit.golden import same_as_golden
from tests.unit.samples import GPT_OSS, plan
from tests.unit.samples import main as models

ARCHIVE = Archive(source="https://files.example.internal/enginehouse.tar.gz", sha256="5e" * 32)
FILE, HOST = "inventories/h100.py", "h100-01"
LOGIN = {"username": "builder", "password": Secret.env("PROXY_PASSWORD")}
SECRETS = {
    "hub": Hub(token=Secret.env("HF_TOKEN")),
    "registry": Registry(username="$oauthtoken", key=Secret.env("NGC_API_KEY")),
}


def data(planned: Plan | None = None, host: str = HOST, file: str = FILE, fetch: str = "", **archive: str) -> UserData:
    """The user-data of one host, of the good inventory by default."""
    return user_data(planned or plan(), host, file, replace(ARCHIVE, **archive), programs(), fetch)


def files(rendered: UserData) -> dict[str, str]:
    """The files that cloud-init writes, by path."""
    entries = yaml.safe_load(rendered.text)["write_files"]
    return {entry["path"]: content(entry) for entry in entries}


def content(entry: dict[str, Any]) -> str:
    """The text of an entry of `write_files`, unpacked as cloud-init does."""
    text = str(entry["content"])
    return gzip.decompress(base64.b64decode(text)).decode() if entry.get("encoding") == "gz+b64" else text


def test_the_whole_text_is_reviewed() -> None:
    """Secrets appear by the names of their variables."""
    same_as_golden("cloud_init/h100-01.yaml", data(plan(**SECRETS), fetch="cat /run/given/secrets.env").text)


def test_the_export_is_cloud_config_with_the_exit_code_of_the_deploy() -> None:
    """The last command of `runcmd` is the unit, of type oneshot: cloud-init waits for it and reports its failure."""
    text = data().text
    read = yaml.safe_load(text)
    assert text.startswith("#cloud-config\n")
    assert read["runcmd"][-1] == ["systemctl", "start", "enginehouse-first-boot.service"]
    assert "Type=oneshot" in files(data())["/etc/systemd/system/enginehouse-first-boot.service"]


def test_unattended_upgrades_are_kept_out_before_any_package() -> None:
    """`bootcmd` runs first of all; cloud-init itself upgrades no package."""
    read = yaml.safe_load(data().text)
    assert "apt-daily-upgrade.timer unattended-upgrades.service" in read["bootcmd"][0][-1]
    assert (read["package_update"], read["package_upgrade"]) == (False, False)


def test_files_arrive_unchanged_packed_or_not() -> None:
    """If a command for secrets does not fit as text, all files are packed; both sizes are printed."""
    long = data(fetch="echo " + "A" * LIMIT)
    assert (long.is_compressed, long.size < LIMIT, "gz+b64" in long.sizes) == (True, True, True)
    plain = files(data(fetch="true"))
    assert plain["/etc/enginehouse-first-boot/first-boot.sh"] == programs().script
    assert {**files(long), "/etc/enginehouse-first-boot/fetch-secrets": "true\n"} == plain


def test_the_export_holds_no_secret_and_names_the_needed_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables' values are set in this shell, and do not appear in the export."""
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh12345678")
    monkeypatch.setenv("NGC_API_KEY", "nvapi-abcdefgh12345678")
    rendered = data(plan(**SECRETS))
    assert not re.search("hf_[a-z]|nvapi-|PRIVATE KEY", rendered.text)
    assert [line for line in rendered.text.splitlines() if secret_in(line)] == []
    assert "SECRETS='HF_TOKEN NGC_API_KEY'\n" in files(rendered)["/etc/enginehouse-first-boot/settings"]


def test_the_export_expects_the_exported_plan() -> None:
    """The host refuses an archive with another inventory."""
    settings = files(data())["/etc/enginehouse-first-boot/settings"]
    assert f"PLAN={plan().digest}\n" in settings


def local_weights() -> Plan:
    """A plan whose LLM is a directory of the control machine: its files have no repository."""
    planned = plan(**models(GPT_OSS))
    (mine,) = planned.slices
    (weights,) = mine.weights
    return replace(planned, slices=(replace(mine, weights=(replace(weights, repository=""),)),))


def behind_proxy(**more: Any) -> Plan:
    return plan(proxy=Proxy(url="http://proxy.example:3128", direct=(".corp.example",), **more))


def test_a_first_boot_goes_out_through_the_host_s_proxy() -> None:
    """The proxy is the inventory's: its URL, and the places that are reached without it."""
    settings = files(data(behind_proxy()))["/etc/enginehouse-first-boot/settings"].splitlines()
    assert "PROXY=http://proxy.example:3128" in settings
    (direct,) = [line for line in settings if line.startswith("DIRECT=")]
    assert {".corp.example", "127.0.0.1"} <= set(direct.removeprefix("DIRECT=").split(","))
    assert "PROXY" not in "".join(line[:5] for line in files(data())["/etc/enginehouse-first-boot/settings"].split())


def noise() -> str:
    """An incompressible command."""
    return "echo " + "".join(base64.b64encode(bytes((n * n * 7919 >> 5) % 251 for n in range(40_000))).decode())


REFUSED = {
    "an-archive-has-a-digest": (lambda: data(sha256=""), "archive-without-digest"),
    "a-digest-has-64-digits": (lambda: data(sha256="5E" * 32), "archive-without-digest"),
    "an-archive-has-a-source": (lambda: data(source="enginehouse.tar.gz"), "archive-source"),
    "a-url-holds-no-secret": (
        lambda: data(source="https://me:hunter2hunter2@files.example.internal/e.tar.gz"),
        "secret-in-user-data",
    ),
    "a-command-holds-no-secret": (lambda: data(fetch="echo HF_TOKEN=hf_abcdefgh12345678"), "secret-in-user-data"),
    "a-command-is-one-line": (lambda: data(fetch="true\ntrue"), "command-of-several-lines"),
    "a-host-is-of-the-inventory": (lambda: data(host="h100-02"), "unknown-host"),
    "an-inventory-is-in-the-archive": (lambda: data(file="../h100.py"), "inventory-outside"),
    "a-system-has-python-3-11": (
        lambda: data(plan(machine=Machine(os="ubuntu-22.04", gpu="h100-80"))),
        "python-too-old-for-first-boot",
    ),
    "weights-are-fetched-by-the-host": (lambda: data(local_weights()), "weights-of-the-control-machine"),
    "a-proxy-asks-for-no-login": (lambda: data(behind_proxy(**LOGIN)), "proxy-login-at-first-boot"),
    "user-data-fits": (lambda: data(fetch=noise()), "user-data-too-large"),
}


@pytest.mark.parametrize("promise", REFUSED)
def test_an_impossible_export_is_refused_with_the_reason(promise: str) -> None:
    """The whole message, reviewed as a golden file; it has a command to type, and no secret."""
    attempt, kind = REFUSED[promise]
    with pytest.raises(Refusal) as caught:
        attempt()
    (problem,) = getattr(caught.value, "problems", (caught.value,))
    assert (problem.kind, bool(problem.attempt)) == (kind, True)
    assert not re.search("hunter2|hf_abc", str(problem))
    shown = re.sub("[0-9,]+ with its files packed", "N with its files packed", str(problem))  # differs by zlib
    same_as_golden(f"cloud_init/refused-{promise}.txt", f"{shown}\n")


def export(*words: str) -> Any:
    """`enginehouse export cloud-init …` with a good archive."""
    archive = ["--from", ARCHIVE.source, "--sha256", ARCHIVE.sha256]
    return CliRunner().invoke(main, ["export", "cloud-init", *words, *archive])


def test_standard_output_is_the_text_alone() -> None:
    """Sizes and the digest of the plan are on standard error."""
    done = export(FILE, "h100-01.example.internal")
    assert (done.exit_code, yaml.safe_load(done.stdout)["package_upgrade"]) == (0, False)
    assert re.search(r"[\d,]+ bytes \([\d,]+ under gzip\) of fewer than 16,384\nexpects plan-", done.stderr)


def test_a_folder_gets_a_file_for_each_host_below_the_limit(tmp_path: Path) -> None:
    """The limit also applies to hosts of a fleet."""
    hosts = ["chat-01.example.internal", "chat-02.example.internal"]
    done = export("inventories/fleet.py", *hosts, "--into", str(tmp_path / "new"))
    assert done.exit_code == 0, done.output
    written = {path.name: path.stat().st_size < LIMIT for path in (tmp_path / "new").iterdir()}
    assert written == {f"{host}.yaml": True for host in hosts}


def test_several_hosts_want_a_folder() -> None:
    """Standard output stays empty."""
    done = export(FILE, "a", "b")
    assert (done.exit_code, done.stdout, "--into" in done.stderr) == (1, "", True)
