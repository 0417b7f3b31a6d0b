"""Hosts without a network: every source is their own loopback, and parts that their bundle lacks are refused first."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from deploy.__main__ import main
from deploy.bundle.contents import Contents, Part
from deploy.bundle.lacking import expected_directories, kernel_problem, lacking
from deploy.io import bundle_apt
from deploy.io.bundle_make import confirm_pinned
from deploy.planning.bundled import PLACE
from deploy.refusals.errors import Refusal
from deploy.slices.host import Slice
from deploy.spec import AptMirror, EngineTrust, Hub, Machine, Mirrors, OwnModel, Registry, Secret, Weights
from tests.unit.samples import LLAMA, RERANKER, plan, refusals, sources
from tests.unit.samples import main as of_server

DIGEST = "sha256:" + "5e" * 32
CLOSED = {
    "machine": Machine(os="debian-12", gpu="h100-80"),
    "connected": False,
    "image_digest": DIGEST,
    "engine_trust": EngineTrust(key="key"),
    "bundle": "/media/bundle",
}


def closed(**changes: Any) -> Slice:
    """A host without a network, from a plan."""
    return plan(**(CLOSED | changes)).slices[0]


def test_every_source_of_a_host_without_a_network_is_its_own_loopback() -> None:
    secrets = {"hub": Hub(token=Secret.env("T")), "registry": Registry(key=Secret.env("K"))}
    text = json.dumps(closed(**secrets).to_json())
    mine = closed(**secrets)
    assert mine.image.origin_reference == f"{PLACE}/nvidia/tritonserver@{DIGEST}"
    assert {server.image for server in mine.servers} == {mine.image}
    assert (mine.hub, mine.registry) == (Hub(endpoint=f"http://{PLACE}"), Registry())
    assert {weights.fetch_on for weights in mine.weights} == {"host"}
    assert mine.mirrors.docker and mine.mirrors.docker.url == f"http://{PLACE}/apt/debian-12/docker"
    assert [word for word in ("nvcr.io", "huggingface.co", "download.docker.com") if word in text] == []


def test_a_connected_host_has_the_plan_it_had() -> None:
    before = plan(image_digest=DIGEST)
    assert plan(image_digest=DIGEST, connected=True, bundle="elsewhere").digest == before.digest
    text = json.dumps(before.slices[0].to_json())
    assert '"bundle"' not in text and '"system"' not in text


def bundle_for(mine: Slice, **changes: Any) -> Contents:
    """A list with all parts that a host needs."""
    names = [f"images/{DIGEST[7:]}/{DIGEST[7:]}"]
    names += [f"weights/{weights.repository}/{weights.revision}/config.json" for weights in mine.weights]
    names += ["apt/debian-12/nvidia/x/linux-headers-6.1.0-28-amd64_1_amd64.deb"]
    parts = tuple(Part(path=name, sha256="0" * 64, size=1, source="") for name in names)
    return replace(Contents(parts=parts, packages={"debian-12": ("curl", "docker-ce")}), **changes)


def test_a_bundle_with_everything_lacks_nothing() -> None:
    assert lacking(closed(), ["curl"], bundle_for(closed())) == []


def test_a_bundle_lacks_what_another_plan_wants() -> None:
    whole = bundle_for(closed())
    none = replace(whole, parts=())
    assert {problem.kind for problem in lacking(closed(), ["curl", "nftables"], none)} == {
        "bundle-packages",
        "bundle-image",
        "bundle-weights",
    }
    assert [problem.facts["wanted"] for problem in lacking(closed(), ["curl", "nftables"], whole)] == ["nftables"]


@pytest.mark.parametrize(
    ("changes", "kind", "seen"),
    [
        ({"packages": {"debian-13": ("curl",)}}, "bundle-system", "debian-13"),
        ({"architecture": "arm64"}, "bundle-architecture", "arm64"),
    ],
)
def test_a_bundle_for_another_system_or_architecture_is_refused(
    changes: dict[str, object], kind: str, seen: str
) -> None:
    (problem,) = lacking(closed(), ["curl"], bundle_for(closed(), **changes))
    assert (problem.kind, problem.facts["seen"], problem.state) == (kind, seen, "preflight; no host was changed")


def test_a_kernel_without_headers_is_refused_with_the_option_that_adds_them() -> None:
    mine, contents = closed(), bundle_for(closed())
    assert kernel_problem(mine, "6.1.0-28-amd64", contents) is None
    problem = kernel_problem(mine, "6.12.0-1-amd64", contents)
    assert problem and problem.facts["seen"] == "6.1.0-28-amd64"
    assert problem.attempt.endswith("--kernel debian-12=6.12.0-1-amd64")
    somebody_s = replace(mine, driver=replace(mine.driver, manage=False))
    assert kernel_problem(somebody_s, "6.12.0-1-amd64", contents) is None


def test_an_image_that_is_not_pinned_is_not_bundled() -> None:
    with pytest.raises(Refusal) as caught:
        confirm_pinned(plan().slices)
    assert caught.value.kind == "bundle-unpinned-image"


def test_the_archive_of_a_distribution_is_the_one_that_apt_here_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    here = ["http://m.example/debian-security/", "http://m.example/debian/", "http://other.example/debian/"]
    monkeypatch.setattr(bundle_apt, "_archives_here", lambda: here)
    assert bundle_apt.system_repository("debian-13", "", "").url == "http://m.example"
    assert bundle_apt.system_repository("debian-13", "http://own.example", "").url == "http://own.example"


def test_an_archive_that_apt_here_does_not_read_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_apt, "_archives_here", lambda: ["http://m.example/debian/"])
    with pytest.raises(Refusal) as caught:
        bundle_apt.system_repository("ubuntu-24.04", "", "")
    assert caught.value.kind == "bundle-archive"
    assert "Mirrors(system=AptMirror(" in caught.value.attempt
    assert bundle_apt.system_repository("ubuntu-24.04", "http://own.example", "").url == "http://own.example"


def test_the_command_line_refuses_a_kernel_without_its_system() -> None:
    ran = CliRunner().invoke(main, ["bundle", "inventories/h100.py", "x", "--kernel", "6.1"])
    assert ran.exit_code and "OS=KERNEL" in ran.output


def test_the_plan_of_a_host_without_network_names_its_bundle() -> None:
    assert plan(**CLOSED).slices[0].to_json()["bundle"] == "/media/bundle"


def test_mirrors_of_the_distribution_want_a_key() -> None:
    problems = refusals(*sources(mirrors=Mirrors(system=AptMirror(url="http://mirror.example.internal", key_file=""))))
    assert [problem.kind for problem in problems] == ["unsigned-mirror"]


def test_planning_refuses_a_need_that_no_bundle_meets() -> None:
    problems = refusals(*sources(**CLOSED | {"image_digest": "", "engine_trust": None}))
    assert [problem.kind for problem in problems] == ["bundle-unpinned-image", "bundle-without-trust"]


def test_a_bundle_holds_no_model_that_a_host_has_itself_and_names_each() -> None:
    """An own model of Triton, and weights of a mount: whoever carries the bundle has to bring them too."""
    own = OwnModel(name="spam", path="/srv/triton", mib=0)
    mounted = replace(LLAMA, weights=Weights.on_host("/mnt/models/llama"))
    without = closed(**of_server(RERANKER, mounted))
    mine = closed(**of_server(RERANKER, mounted, own_models=(own,)))
    assert [weights.model for weights in mine.weights] == ["bge"]
    assert lacking(mine, ["curl"], bundle_for(without)) == []
    assert list(expected_directories([mine])) == [
        "not in the bundle: /srv/triton/spam of spam, which h100-01 has to have itself",
        "not in the bundle: /mnt/models/llama of llama, which h100-01 has to have itself",
    ]
