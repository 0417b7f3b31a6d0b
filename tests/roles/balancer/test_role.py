"""The balancer role on hosts in every state: bare, finished, half-finished."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from deploy.slices.traffic import BalancerSlice
from deploy.spec import Secret
from roles import balancer
from roles._shipping.places import command
from roles.balancer import operations
from roles.balancer.config import config, everything
from roles.balancer.defaults import CONFIG, UNIT_NAME
from tests.roles.balancer.slices import CHAT, a_balancer, member
from tests.roles.fake import Ran, run
from tests.unit.certificates import write_certificate

INSTALL = "/usr/local/lib/enginehouse/patient-apt install --allow-downgrades --allow-change-held-packages"
FOLLOW = f"{command('balancer')} follow"
MINE = a_balancer()
RUNS = ["unit\tId=enginehouse-balancer.service", "unit\tLoadState=loaded", "unit\tActiveState=active",
        "unit\tUnitFileState=enabled", "unit\t"]  # fmt: skip
OFF = ["unit\tId=haproxy.service", "unit\tLoadState=loaded", "unit\tActiveState=inactive",
       "unit\tUnitFileState=disabled", "unit\t"]  # fmt: skip
PACKAGE = ["package\thaproxy\t2.6.12-1+deb12u4\tii "]


def written(mine: BalancerSlice = MINE, models: tuple[str, ...] = ("llama", "bge")) -> list[str]:
    """The configuration for these models, as the fact prints it."""
    text = config(mine, {"chat": models}, operations.certificate_path(mine), operations.clients_path(mine))
    pages = [f"/v2/models/{model}/ready" for model in models] or ["/v2/health/ready"]
    return [
        f"file\t{CONFIG}\t{sha256(text.encode()).hexdigest()}",
        *(f"value\tchecked\tchat_http {page}" for page in pages),
    ]


def placed(mine: BalancerSlice = MINE) -> str:
    """The texts of the role, as on a finished host."""
    return "\n".join(f"{text.wanted_fact} {text.path}" for text in operations.texts(mine))


def play(*seen: str, mine: BalancerSlice = MINE, texts: str | None = None, **how: Any) -> Ran:
    """Both halves of a run on a host with the facts `seen`."""

    def story() -> None:
        balancer.apply(mine)
        balancer.check_all_models(mine)

    answers = {"dpkg-query": list(seen), "%n %a %U": placed(mine) if texts is None else texts}
    return run(story, answers=answers, **how)


def first_lines(ran: Ran) -> list[str]:
    """The commands without the content that they write."""
    return [text.split("\n")[0] for text in ran.commands]


def test_a_bare_host_gets_package_files_a_checked_configuration_and_a_process() -> None:
    commands = first_lines(play(texts=""))
    starts = [
        f"{INSTALL} --no-install-recommends haproxy",
        "systemctl disable --now haproxy.service",
        "mkdir -p /etc/systemd/system && cat > ",
        "mkdir -p /etc/enginehouse/balancer && cat > /etc/enginehouse/balancer/hold.lua",
        "systemctl daemon-reload",
        f"mkdir -p /etc/enginehouse/balancer && cat > {CONFIG}.checked",
        f"systemctl enable {UNIT_NAME}",
        FOLLOW,
    ]
    assert [text.startswith(start) for text, start in zip(commands, starts, strict=True)] == [True] * len(starts)


def test_haproxy_reads_the_configuration_before_it_replaces_the_one_in_force() -> None:
    (command,) = [text for text in play(*PACKAGE, *RUNS, *OFF).commands if f"{CONFIG}.checked" in text]
    assert f"haproxy -c -q -f {CONFIG}.checked && mv -T {CONFIG}.checked {CONFIG}" in command


def test_a_finished_host_gets_no_commands() -> None:
    ran = play(*PACKAGE, *written(), *RUNS, *OFF)
    assert (ran.commands, ran.would_change) == ((), ())


def test_a_process_that_a_run_left_behind_follows_its_file() -> None:
    seen = [*PACKAGE, *written(), *RUNS, *OFF, "value\tdiffers\tadd server: chat_http/h2.main"]
    assert first_lines(play(*seen)) == [FOLLOW]


def test_a_host_that_joins_is_written_and_followed() -> None:
    seen = [*PACKAGE, *written(a_balancer(replace(CHAT, members=(member(1),)))), *RUNS, *OFF]
    ran = play(*seen, dry=True)
    assert ran.would_change == ("Balancer | Write the configuration", "Balancer | Apply the configuration")


def test_a_model_that_is_new_is_checked_only_after_the_last_wave() -> None:
    seen = [*PACKAGE, *written(models=("bge",)), *RUNS, *OFF]
    ran = play(*seen)
    assert [step.name for step in ran.steps if step.commands] == ["Balancer | Check every model"]
    assert config(MINE, everything(MINE)) in "".join(heard.stdin for heard in ran.shell["host"])


def test_the_distributions_own_service_stays_off() -> None:
    on = [line.replace("inactive", "active").replace("disabled", "enabled") for line in OFF]
    assert first_lines(play(*PACKAGE, *written(), *RUNS, *on)) == ["systemctl disable --now haproxy.service"]


def test_a_key_goes_on_standard_input_once_and_is_in_no_command(tmp_path: Path) -> None:
    pem = write_certificate(tmp_path)
    secret = Secret.command("cat", str(pem.with_suffix(".key")))
    mine = a_balancer(certificate=str(pem), certificate_key=secret)
    key = pem.with_suffix(".key").read_text()
    bare = play(*PACKAGE, *RUNS, *OFF, mine=mine)
    sent = [heard for heard in bare.shell["host"] if "PRIVATE KEY" in heard.stdin]
    assert [heard.stdin.split() for heard in sent] == [key.split()]
    assert not any("PRIVATE KEY" in heard.command for heard in bare.shell["host"])
    assert not any(line in text for line in key.splitlines() for text in bare.log)
    done = play(*PACKAGE, *written(mine), *RUNS, *OFF, "value\tkey\t600 root", mine=mine)
    assert done.commands == ()


def test_client_authorities_have_their_own_file_beside_the_certificate(tmp_path: Path) -> None:
    pem, signed = write_certificate(tmp_path), write_certificate(tmp_path, "clients")
    secret = Secret.command("cat", str(pem.with_suffix(".key")))
    mine = a_balancer(certificate=str(pem), certificate_key=secret, clients=str(signed))
    path = operations.clients_path(mine)
    assert {text.path: text.content for text in operations.texts(mine)}[path] == signed.read_text()
    done = play(*PACKAGE, *written(mine), *RUNS, *OFF, "value\tkey\t600 root", mine=mine)
    assert (done.commands, f"ca-file {path} " in config(mine, {"chat": ()}, "edge.pem", path)) == ((), True)


def test_a_rollback_asks_for_no_single_model() -> None:
    ran = run(lambda: balancer.check_servers_only(MINE), answers={"dpkg-query": [*PACKAGE, *written(), *RUNS, *OFF]})
    assert config(MINE, {"chat": ()}) in "".join(heard.stdin for heard in ran.shell["host"])
    again = run(
        lambda: balancer.check_servers_only(MINE), answers={"dpkg-query": [*PACKAGE, *written(models=()), *RUNS, *OFF]}
    )
    assert again.commands == ()
