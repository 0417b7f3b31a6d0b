"""The monitor role on hosts in every state: bare, finished, half-finished; and the files that it writes."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.monitoring.rules import rule_file
from deploy.slices.monitor import MonitorSlice
from deploy.spec import Secret
from roles import monitor, support
from roles.monitor import config, operations
from roles.monitor.defaults import ALERTS, ALL, BLACKBOX, CONFIG, PACKAGES, PROMETHEUS, RULES
from tests.monitoring.test_rules import promtool
from tests.roles.fake import Ran, run
from tests.roles.monitor.plans import a_monitor, watched
from tests.unit.golden import same_as_golden

INSTALL = "/usr/local/lib/enginehouse/patient-apt install --allow-downgrades --allow-change-held-packages"
MINE = a_monitor()
PACKED = [f"package\t{name}\t2.42.0+ds-5\tii " for name in PACKAGES]
RECEIVERS = "receivers:\n- name: page\n  webhook_configs:\n  - url: http://hook/7d1f\n- name: ticket\n"
TOLD = replace(MINE, receivers=Secret.env("RECEIVERS"))


def running(*names: str) -> list[str]:
    """These units in systemd's output, running and started at boot."""
    rows = [[f"Id={name}", "LoadState=loaded", "ActiveState=active", "UnitFileState=enabled", ""] for name in names]
    return [f"unit\t{row}" for unit in rows for row in unit]


def files(mine: MonitorSlice = MINE, alerts: str = config.alerts() + config.NO_RECEIVERS) -> list[str]:
    """The fact's lines about the checked files of a finished host."""
    texts = {RULES: config.rules(mine), CONFIG: config.prometheus(mine), ALERTS: alerts}
    return [f"file\t{path}\t{sha256(text.encode()).hexdigest()}" for path, text in texts.items()]


DONE = [*PACKED, *running(*ALL), *files()]


def play(*seen: str, mine: MonitorSlice = MINE, texts: str | None = None, **how: Any) -> Ran:
    """The role on a host with the facts `seen`."""
    placed = "\n".join(f"{text.wanted_fact} {text.path}" for text in operations.texts(mine))
    answers = {"dpkg-query": list(seen), "%n %a %U": placed if texts is None else texts}
    return run(lambda: monitor.apply(mine), answers=answers, **how)


def first_lines(ran: Ran) -> list[str]:
    """The commands without the content that they write."""
    return [text.split("\n")[0] for text in ran.commands]


def test_a_bare_host_gets_masked_packages_checked_files_and_programs_that_answer() -> None:
    commands = first_lines(play(texts=""))
    starts = [
        "systemctl mask prometheus.service prometheus-alertmanager.service prometheus-blackbox-exporter.service",
        f"{INSTALL} --no-install-recommends prometheus prometheus-alertmanager prometheus-blackbox-exporter",
        *["mkdir -p /etc/systemd/system && cat > "] * 3,
        "mkdir -p /etc/enginehouse/monitor && cat > /etc/enginehouse/monitor/blackbox.yml",
        "systemctl daemon-reload",
        f"mkdir -p /etc/enginehouse/monitor && cat > {RULES}.checked",
        f"mkdir -p /etc/enginehouse/monitor && cat > {CONFIG}.checked",
        f"mkdir -p /etc/enginehouse/monitor && cat > {ALERTS}.checked",
        *(start for name in ALL for start in (f"systemctl enable {name}", f"systemctl restart {name} && {{ for i in")),
    ]
    assert [text.startswith(start) for text, start in zip(commands, starts, strict=True)] == [True] * len(starts)


def test_the_packages_own_units_are_masked_before_installation() -> None:
    """Debian's own units listen on every address from the moment of installation."""
    commands = play(texts="").commands
    assert commands[0] == f"systemctl mask {' '.join(PACKAGES.values())}"
    assert not any(f" {unit}" in text for text in commands[1:] for unit in PACKAGES.values())


def test_a_finished_host_gets_no_commands() -> None:
    assert play(*DONE).commands == ()


def test_a_package_that_was_there_before_keeps_its_unit() -> None:
    commands = play(*DONE[1:]).commands
    assert commands[0] == "systemctl mask prometheus.service"


@pytest.mark.parametrize(("path", "check"), [(RULES, "check rules"), (CONFIG, "check config")])
def test_promtool_reads_a_file_before_it_replaces_the_one_in_force(path: str, check: str) -> None:
    seen = [line for line in DONE if path not in line]
    (command,) = play(*seen).commands
    assert f"promtool {check} {path}.checked && sync {path}.checked && mv -T {path}.checked {path}" in command


def test_files_that_a_program_has_not_read_are_read_without_a_restart() -> None:
    """Files of an interrupted run are read too."""
    commands = first_lines(play(*DONE, f"value\tloaded\t{PROMETHEUS}"))
    assert [text.split(" && ")[0] for text in commands] == [f"systemctl reload {PROMETHEUS}"]


def test_a_unit_that_changed_restarts_its_program_alone() -> None:
    commands = first_lines(play(*DONE, f"value\tstarted\t{BLACKBOX}", f"value\tloaded\t{BLACKBOX}"))
    assert [text.split(" && ")[0] for text in commands] == [f"systemctl restart {BLACKBOX}"]


def test_receivers_are_sent_on_standard_input_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECEIVERS", RECEIVERS)
    ran = play(*DONE, mine=TOLD)
    sent = [heard for heard in ran.shell["host"] if "7d1f" in heard.stdin]
    assert len(sent) == 1
    assert "amtool check-config" in sent[0].command
    assert "chmod 0640" in sent[0].command
    assert not [text for text in (*ran.commands, *ran.log) if "7d1f" in text]


def test_the_same_receivers_are_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECEIVERS", RECEIVERS)
    assert play(*PACKED, *running(*ALL), *files(TOLD, config.alerts() + RECEIVERS), mine=TOLD).commands == ()


def test_receivers_that_cannot_be_had_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECEIVERS", raising=False)
    ran = play(*DONE, mine=TOLD)
    assert ran.failed_hosts == ("host",)
    assert not [heard for heard in ran.shell["host"] if ALERTS in heard.command and "cat >" in heard.command]


def test_a_deploy_sets_tools_and_firewall_up_first_and_the_monitor_last() -> None:
    def story() -> None:
        support.apply(MINE)
        support.apply_after_waves(MINE)

    names = run(story, answers={"ssh-ports": ["value\tssh-ports\t22"]}).operations
    order = (
        "Base | Install tools",
        "Firewall | Load the rules",
        "Exporters | Run the exporters",
        "Monitor | Run the services",
    )
    places = [next(place for place, name in enumerate(names) if name.startswith(start)) for start in order]
    assert places == sorted(places)


def test_the_files_of_a_monitor_are_these() -> None:
    same_as_golden("monitor/prometheus.yml", config.prometheus(MINE))
    same_as_golden("monitor/alertmanager.yml", config.alerts() + config.NO_RECEIVERS)
    same_as_golden("monitor/blackbox.yml", config.probes())
    same_as_golden("monitor/enginehouse-prometheus.service", operations.unit(PROMETHEUS, MINE).content)


def test_no_label_of_a_page_can_take_the_name_of_its_host() -> None:
    """Prometheus keeps its own `instance` and `host` unless it has to honour a page's labels."""
    assert "honor_labels" not in config.prometheus(MINE)


def test_programs_answer_on_loopback_until_somebody_is_let_in() -> None:
    lets_in = a_monitor(allow=("10.1.0.0/16",))
    assert operations.listen(PROMETHEUS, MINE) == "127.0.0.1:9090"
    assert operations.listen(PROMETHEUS, lets_in) == "10.0.0.9:9090"
    assert operations.listen(BLACKBOX, lets_in) == "127.0.0.1:8008"


def test_every_target_of_the_plan_is_read_once_and_under_its_own_names() -> None:
    jobs = yaml.safe_load(config.prometheus(MINE))["scrape_configs"]
    named = [(job["job_name"], *sorted(group["labels"].items())) for job in jobs for group in job["static_configs"]]
    assert len(named) == len(MINE.targets)
    assert len({str(labels) for labels in named}) == len(named)


@promtool
def test_promtool_takes_the_rendered_files(tmp_path: Path) -> None:
    """The rules are beside the configuration, as on the host."""
    rules, whole = tmp_path / "rules.yml", tmp_path / "prometheus.yml"
    rules.write_text(rule_file(watched().monitors[0].branches))
    whole.write_text(config.prometheus(MINE).replace(RULES, str(rules)))
    done = subprocess.run(["promtool", "check", "config", str(whole)], capture_output=True, text=True, check=False)
    assert (done.returncode, "77 rules found" in done.stdout) == (0, True), done.stdout + done.stderr
