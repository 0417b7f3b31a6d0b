"""Hosts' names and settings of SSH: refused if they would miss the host; the offered text is accepted."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from deploy.inventory.logins import login_problems

NAMES = {
    "ubuntu@203.0.113.7": ("203.0.113.7", {"ssh_user": "ubuntu"}),
    "203.0.113.7:2222": ("203.0.113.7", {"ssh_port": 2222}),
    "ubuntu@203.0.113.7:2222": ("203.0.113.7", {"ssh_user": "ubuntu", "ssh_port": 2222}),
    "root@gpu-1.example.com:22": ("gpu-1.example.com", {"ssh_user": "root", "ssh_port": 22}),
    "ssh://gpu-1": "gpu-1",
    "ssh://ubuntu@gpu-1:2222/": ("gpu-1", {"ssh_user": "ubuntu", "ssh_port": 2222}),
    "[2001:db8::7]": "2001:db8::7",
    "[2001:db8::7]:2222": ("2001:db8::7", {"ssh_port": 2222}),
    "gpu-1 ": "gpu-1",
    " gpu-1": "gpu-1",
    "10.0.0.5/24": "10.0.0.5",
    "https://gpu-1.example.com/": "gpu-1.example.com",
}


@pytest.mark.parametrize(("typed", "meant"), NAMES.items(), ids=map(repr, NAMES))
def test_a_name_with_user_or_port_is_split_and_the_offer_accepted(typed: str, meant: Any) -> None:
    (problem,) = login_problems(typed, {})
    assert ast.literal_eval(problem.attempt) == meant
    name, data = meant if isinstance(meant, tuple) else (meant, {})
    assert login_problems(name, data) == []


@pytest.mark.parametrize(
    "name",
    ["gpu-1", "gpu_1", "GPU-01.Example.com", "10.0.0.5", "2001:db8::7", "fe80::1%eth0", "127.0.0.1", "node.1", "x"],
)
def test_a_valid_name_is_accepted(name: str) -> None:
    assert login_problems(name, {"ssh_port": 2222, "ssh_user": "ubuntu", "_sudo": True}) == []


@pytest.mark.parametrize(
    "name",
    [
        "0.0.0.0",
        "::",
        "255.255.255.255",
        "224.0.0.1",
        "8000",
        "26.07",
        "a b",
        "a,b",
        "gpu-1;id",
        "x" * 64,
        "é",
        "a/b:c",
    ],
)
def test_an_address_that_no_host_can_have_is_refused(name: str) -> None:
    assert [problem.kind for problem in login_problems(name, {})] == ["unsafe-login"]


@pytest.mark.parametrize("value", [0, -1, 65_536, 222_222, 22.0, True, "22/tcp", "", [2222], float("nan"), 10**400])
def test_an_invalid_port_is_refused_and_the_offered_one_accepted(value: Any) -> None:
    (problem,) = login_problems("gpu-1", {"ssh_port": value})
    offered = ast.literal_eval("{" + problem.attempt.partition(", or")[0] + "}")
    assert login_problems("gpu-1", offered) == []


@pytest.mark.parametrize(
    ("key", "offer"),
    [
        ("ssh_usr", "ssh_user"),
        ("ssh_username", "ssh_user"),
        ("ssh_host", "ssh_hostname"),
        ("ssh_keyfile", "ssh_key"),
        ("ssh_config", "ssh_config_file"),
        ("_sudoo", "_sudo"),
        ("_sudo_usr", "_sudo_user"),
    ],
)
def test_a_misspelt_key_is_offered_its_right_name(key: str, offer: str) -> None:
    (problem,) = login_problems("gpu-1", {key: "x"})
    assert (problem.kind, problem.attempt) == ("unknown-key", f"did you mean `{offer}`?")


@pytest.mark.parametrize("key", ["ssh_password", "ssh_key_password", "_sudo_password", "_su_password"])
def test_no_password_is_shown(key: str) -> None:
    """No part of a password is in the message."""
    (problem,) = login_problems("gpu-1", {key: "correct horse"})
    assert problem.kind == "literal-secret"
    assert "horse" not in str(problem)


def test_a_token_as_a_name_is_refused_and_not_shown() -> None:
    problems = login_problems("ghp_0123456789abcdef0123456789abcdef", {})
    assert [problem.kind for problem in problems] == ["literal-secret"]
    assert "0123456789" not in str(problems[0])
