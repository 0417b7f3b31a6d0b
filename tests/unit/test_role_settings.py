"""Values under `<role>_settings` are judged in the plan, by the fields that each role declares."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from deploy.inventory.fleet import Fleet
from deploy.inventory.knobs import Range, role_problems, settings_problems
from deploy.io.inventory import load_plan
from deploy.refusals.errors import Refusal
from roles._pyinfra.settings import known_settings
from tests.unit.samples import sources

ROOT = Path(__file__).parents[2]
TABLE = known_settings()
ROLES = sorted(
    file.parent.name for file in (ROOT / "roles").glob("*/defaults.py") if "class Defaults:" in file.read_text("utf-8")
)


def refusals(**data: Any) -> list[str]:
    """Every refusal of one good host with this data, as printed."""
    return [str(problem) for _host, problem in Fleet.of(sources("h", **data), TABLE).unread]


def test_a_setting_below_its_range_is_refused() -> None:
    """`keep_releases=0` would leave no release for a rollback after two deploys."""
    assert refusals(triton_settings={"keep_releases": 0}) == [
        "`triton_settings.keep_releases` takes no 0\n"
        "  where   triton_settings.keep_releases\n"
        "  seen    0\n"
        "  wanted  1 to 1,000\n"
        "  try     write 1 to 1,000 there, or leave it out\n"
        "  state   planning; no host was changed"
    ]


def test_a_misspelt_setting_is_offered_the_nearest() -> None:
    """In earlier versions the first host that reached the role reported it."""
    assert refusals(health_settings={"watch_second": 5}) == [
        "health_settings has no key `watch_second`\n"
        "  where   health_settings\n"
        "  seen    `watch_second`\n"
        "  wanted  a knob of the role health\n"
        "  try     did you mean `watch_seconds`?  known: answer_seconds, gpu_state_seconds, misses, repairs, "
        "restart_hours, restarts, watch_seconds\n"
        "  state   planning; no host was changed"
    ]


@pytest.mark.parametrize(
    ("data", "first"),
    [
        ({"health_settings": {"watch_seconds": -5}}, "`health_settings.watch_seconds` takes no -5"),
        ({"docker_settings": {"log_files": "4"}}, "`docker_settings.log_files` has to be a whole number"),
        ({"docker_settings": {"log_files": True}}, "`docker_settings.log_files` has to be a whole number"),
        ({"docker_settings": 4}, "`docker_settings` has to be a dictionary"),
        ({"docker_settings": {"repository": "ftp://x"}}, "`docker_settings.repository` takes no 'ftp://x'"),
        (
            {"model_store_settings": {"bandwidth_limit": "80 MB"}},
            "`model_store_settings.bandwidth_limit` takes no '80 MB'",
        ),
        ({"preflight_settings": {"memory_percent": 940}}, "`preflight_settings.memory_percent` takes no 940"),
        ({"base_settings": {"packages": "rsync"}}, "`base_settings.packages` has to be a tuple"),
        ({"tritn_settings": {}}, "nothing reads the data key `tritn_settings`"),
        ({"firewall_settings": {}}, "nothing reads the data key `firewall_settings`"),
    ],
)
def test_type_range_and_name_are_judged(data: dict[str, Any], first: str) -> None:
    """A single refusal for a single mistake."""
    assert [text.splitlines()[0] for text in refusals(**data)] == [first]


def test_a_misspelt_role_is_offered_the_nearest() -> None:
    """Only roles with settings are offered."""
    assert "did you mean `triton_settings`?" in refusals(tritn_settings={})[0]


def test_all_mistakes_of_all_roles_come_together() -> None:
    """The rest of the plan is in the same report."""
    assert len(refusals(triton_settings={"tmp_mib": 0, "bls": 1}, health_settings={"misses": 0}, machine={})) == 4


@pytest.mark.parametrize("role", ROLES)
def test_the_defaults_of_every_role_are_in_their_own_range(role: str) -> None:
    """A value copied from the table has to be accepted."""
    defaults = TABLE[role]()
    values = {field.name: getattr(defaults, field.name) for field in fields(defaults)}
    assert list(role_problems(f"{role}_settings", values, TABLE[role])) == []


@pytest.mark.parametrize("role", ROLES)
def test_every_number_a_role_takes_has_a_range(role: str) -> None:
    """A new knob needs its own range."""
    hints = get_type_hints(TABLE[role], include_extras=True)
    assert [name for name, hint in hints.items() if hint is int] == []
    assert all(limit.least >= 0 for hint in hints.values() for limit in get_args(hint)[1:] if isinstance(limit, Range))


def test_the_table_holds_every_role_that_has_defaults() -> None:
    """A new role needs only its folder."""
    assert sorted(TABLE) == ROLES


def test_a_knob_s_range_holds_both_ends() -> None:
    """Numbers beyond the ends are refused."""
    limit = Range(1, 3)
    assert [limit.takes(value) for value in (0, 1, 3, 4)] == [False, True, True, False]


def test_without_the_table_settings_are_left_to_the_roles() -> None:
    """A program that reads an inventory for another purpose does not need the roles' settings."""
    assert Fleet.of(sources("h", triton_settings={"keep_releases": 0})).unread == ()
    assert list(settings_problems({"triton_settings": {}}, {})) == []


SETTINGS = '"_sudo": True, "triton_settings": {"keep_release": 3},'


def test_enginehouse_plan_refuses_a_misspelt_setting(tmp_path: Path) -> None:
    """The command line passes the roles' settings to the plan."""
    text = (ROOT / "inventories" / "h100.py").read_text().replace('"_sudo": True,', SETTINGS)
    (tmp_path / "fleet.py").write_text(text)
    argv = [sys.executable, "-m", "deploy", "plan", str(tmp_path / "fleet.py")]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, "did you mean `keep_releases`?" in done.stderr) == (1, True)
    with pytest.raises(Refusal):
        load_plan(str(tmp_path / "fleet.py"), knobs=TABLE)


@pytest.mark.parametrize("verb", ["deploy.py", "rollback.py", "build.py", "remove.py", "doctor.py"])
def test_every_verb_of_pyinfra_hands_the_table_in(verb: str) -> None:
    """Without the table, a verb would plan settings that a role then refuses."""
    assert "planned(inventory, host, known_settings())" in (ROOT / verb).read_text()
