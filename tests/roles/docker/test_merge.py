"""daemon.json and containerd's configuration, merged: our keys are set, all others stay."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roles.docker.defaults import Defaults
from roles.docker.merge import merged, own_keys, with_root

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
OBJECT = st.dictionaries(st.sampled_from(["features", "log-driver", "log-opts", "data-root", "x"]), JSON, max_size=5)


@settings(deadline=None)
@given(OBJECT, OBJECT)
def test_merging_twice_changes_nothing_more(current: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert merged(merged(current, wanted), wanted) == merged(current, wanted)


@settings(deadline=None)
@given(OBJECT, OBJECT)
def test_foreign_keys_of_daemon_json_stay(current: dict[str, Any], wanted: dict[str, Any]) -> None:
    result = merged(current, wanted)
    assert {key: result[key] for key in current if key not in wanted} == {
        key: value for key, value in current.items() if key not in wanted
    }


def test_other_features_survive() -> None:
    current = {"features": {"containerd-snapshotter": False}}
    assert merged(current, own_keys(current, Defaults(), "", {}))["features"] == {
        "containerd-snapshotter": False,
        "cdi": True,
    }


@pytest.mark.parametrize(
    ("current", "logs"),
    [
        ({}, {"log-driver": "local", "log-opts": {"max-size": "50m", "max-file": "4"}}),
        ({"log-driver": "journald"}, {}),
        ({"log-driver": "json-file"}, {"log-opts": {"max-size": "50m", "max-file": "4"}}),
        (
            {"log-opts": {"labels": "theirs"}},
            {"log-opts": {"labels": "theirs", "max-size": "50m", "max-file": "4"}},
        ),
        (
            {"log-driver": "json-file", "log-opts": {"max-size": "1g"}},
            {"log-opts": {"max-size": "1g", "max-file": "4"}},
        ),
    ],
)
def test_logs_are_bounded_unless_somebody_chose_otherwise(current: dict[str, Any], logs: dict[str, Any]) -> None:
    keys = own_keys(current, Defaults(), "", {})
    assert {key: value for key, value in keys.items() if key.startswith("log-")} == logs


def test_the_inventory_has_the_last_word() -> None:
    assert own_keys({}, Defaults(), "", {"features": {"cdi": False}, "mtu": 1400})["features"] == {"cdi": False}


def test_the_data_root_is_set_only_where_one_is_wanted() -> None:
    assert "data-root" not in json.dumps(own_keys({}, Defaults(), "", {}))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("", 'root = "/data/containerd"\n\n'),
        (
            '# shipped\ndisabled_plugins = ["cri"]\n\n[plugins]\nroot = "/x"\n',
            '# shipped\ndisabled_plugins = ["cri"]\nroot = "/data/containerd"\n\n[plugins]\nroot = "/x"\n',
        ),
        (
            'root = "/var/lib/containerd"\nstate = "/run/containerd"\n',
            'root = "/data/containerd"\nstate = "/run/containerd"\n',
        ),
        ('root = "/data/containerd"\n[plugins]\n', 'root = "/data/containerd"\n[plugins]\n'),
    ],
)
def test_containerds_root_is_set_at_the_top_level(config: str, expected: str) -> None:
    assert with_root(config, "/data/containerd") == expected


@pytest.mark.parametrize("config", ["", "[plugins]\n", '#root = "/a"\nversion = 3\n\n[grpc]\n'])
def test_setting_the_root_twice_changes_nothing_more(config: str) -> None:
    once = with_root(config, "/data/containerd")
    assert with_root(once, "/data/containerd") == once
