"""The answers of a serving machine to the outside, and the guarantee that a deploy never locks itself out.

The tests share one machine and run in pytest's order: allowed networks, Triton's refusals, the container's rights, its
logs at the highest verbosity, hostile requests; last, changes that would lock us out. It has more lines than other
files, because a second file would need a second deploy.
"""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterator

import pytest
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from rehearsal import requirements
from tests.rehearsal import malformed
from tests.rehearsal.surface import (
    INSIDE,
    INSIDE_V6,
    MACHINE_V6,
    OUTSIDE,
    PLACES,
    Surface,
    answering,
    connects,
    routed,
    surface,
)
from tests.rehearsal.surface_wanted import (
    EXPOSURE,
    FORBIDDEN_CALLS,
    INSPECTED,
    LOCKED_OUT,
    MODES,
    NOT_ROOTS,
    RESTRICTED,
)
from tests.smoke import ask

# Minutes on a machine: `make faults` runs it.
pytestmark = [pytest.mark.rehearsal, pytest.mark.faults, pytest.mark.xdist_group("number-2")]

SERVED = [8000, 8001, 8002]
TRAFFIC = [8003, 8004]
"""Port on which senders of requests ask for readiness."""
FOUNDATION, FIREWALL = "tests/rehearsal/verbs/foundation.py", "tests/rehearsal/verbs/firewall.py"
CANARY = "xylophone-canary-prompt"
SEED = 20261121
TABLE = "nft -s list table inet enginehouse"
OWN_PORT = 9999
STRANGER, METRICS_UID = "4242", "61200"
"""A login without rights, and a number that systemd gives to enginehouse-metrics and other dynamic users."""
LISTEN = f"systemd-run --quiet --unit=own-service python3 -m http.server {OWN_PORT} --bind ::"


@pytest.fixture(scope="module")
def served() -> Iterator[Surface]:
    """Yields the machine behind its firewall."""
    if lacking := [*requirements.missing(PLACES), *requirements.missing_packages()]:
        pytest.skip(requirements.explain(lacking))
    with surface() as served_surface:
        served_surface.says(LISTEN)
        yield served_surface


def test_a_second_run_changes_nothing(served: Surface) -> None:
    """The second run changes no firewall rule either."""
    assert served.run().changed == {}


def test_from_a_declared_network_only_the_declared_ports_answer(served: Surface) -> None:
    """The test tries every port up to 2,048, the ports around ours, and the ports with a listener."""
    listening = [int(line) for line in served.says("ss -Htln | awk '{ sub(/.*:/, \"\", $4); print $4 }'")]
    ports = sorted({*range(1, 2_049), *range(7_900, 8_100), *listening})
    assert (OWN_PORT in listening, answering(served.machine.address, ports, INSIDE)) == (True, [22, *SERVED, *TRAFFIC])


def test_from_any_other_network_only_ssh_answers(served: Surface) -> None:
    """Docker's published ports are closed too, although they never pass the input chain."""
    assert answering(served.machine.address, [22, *SERVED, *TRAFFIC, OWN_PORT], OUTSIDE) == [22]


def test_the_surface_over_ipv6_is_the_same(served: Surface) -> None:
    """The machine's own service listens on an IPv6 address."""
    assert answering(MACHINE_V6, [22, OWN_PORT, *SERVED], INSIDE_V6) == [22]


def test_the_containers_own_address_is_no_way_around(served: Surface) -> None:
    """A neighbour could route to it through the machine; without the table it connects."""
    address = served.container_address()
    with routed(address, served.machine.address):
        with_table = connects(address, 8000, INSIDE)
        served.says("nft delete table inet enginehouse")
        assert (with_table, connects(address, 8000, INSIDE)) == (False, True)


def test_rules_that_somebody_flushed_come_back_with_the_next_run(served: Surface) -> None:
    """The test deleted the table; the services' rules are not the project's."""
    run = served.run(verb=FIREWALL)
    assert (run.code, sorted(run.changed.values())) == (0, ["Firewall | Load the rules, confirmed"])
    assert answering(served.machine.address, [22, *SERVED, *TRAFFIC, OWN_PORT], OUTSIDE) == [22]


def test_tables_of_others_stay(served: Surface) -> None:
    """Docker's tables and others' stay unchanged."""
    assert {"table ip nat", "table ip filter", "table inet enginehouse"} <= set(served.says("nft list tables"))


def test_requests_that_load_or_reveal_are_refused_over_http(served: Surface) -> None:
    """A request without the key of this start has status 403."""
    assert {path: served.status(method, path) for method, path in RESTRICTED} == {path: 403 for _, path in RESTRICTED}


@pytest.mark.parametrize("call", FORBIDDEN_CALLS)
def test_requests_that_load_or_reveal_are_refused_over_grpc(served: Surface, call: str) -> None:
    """The answer has Triton's own message."""
    with (
        tritonclient.grpc.InferenceServerClient(served.endpoint(8001)) as client,
        pytest.raises(InferenceServerException, match="restricted"),
    ):
        FORBIDDEN_CALLS[call](client)


def test_the_container_has_only_the_needed_rights(served: Surface) -> None:
    """Docker itself reports the container's limits."""
    (container,) = json.loads("".join(served.says("docker inspect triton-main")))
    host = container["HostConfig"]
    seen = {name: host.get(name, container["Config"].get(name)) for name in INSPECTED}
    core = [[limit["Hard"], limit["Soft"]] for limit in host["Ulimits"] if limit["Name"] == "core"]
    assert seen | {"LogConfig": host["LogConfig"]["Type"], "core": core[0]} == INSPECTED


def test_no_process_in_it_has_a_capability_or_is_root(served: Surface) -> None:
    """The kernel reports the capabilities and the user of every process."""
    lines = "s/^\\(Uid\\|Cap...\\|NoNewPrivs\\):\\t//p"
    command = f"docker top triton-main -eo pid | tail -n +2 | xargs -I {{}} sed -n '{lines}' /proc/{{}}/status"
    assert set(served.says(command)) == {"61140\t61140\t61140\t61140", "0000000000000000", "1"}


def test_the_container_opens_no_connection_outward(served: Surface) -> None:
    """The container reaches neither the network nor its machine; the machine itself reaches both."""
    targets = [f"{INSIDE}/8080", f"{INSIDE}/22", f"{served.machine.address}/22", "172.17.0.1/22", "172.18.0.1/22"]
    targets += [f"{INSIDE_V6}/22", f"{MACHINE_V6}/22"]
    dialled = " & ".join(f"(timeout 2 bash -c '</dev/tcp/{target}' && echo {target})" for target in targets)
    assert served.says(f'docker exec triton-main bash -c "({dialled}; wait) 2>/dev/null"') == []
    assert served.says(f"timeout 2 bash -c '</dev/tcp/{served.machine.address}/22' && echo open") == ["open"]


def test_no_datagram_leaves_the_container_and_it_has_no_resolver(served: Surface) -> None:
    """The machine's own datagram arrives, and the machine knows the name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind((INSIDE, 0))
        ear.settimeout(5)
        datagram = f"bash -c 'echo -n {{}} >/dev/udp/{INSIDE}/{ear.getsockname()[1]}'"
        served.says(f"docker exec triton-main {datagram.format('container')}; {datagram.format('machine')}")
        assert ear.recv(64) == b"machine"
    hook = "import socket, sys; sys.excepthook = lambda *problem: print(problem[0].__name__)"
    lookup = f"""python3 -c '{hook}; print(socket.gethostbyname("registry.rehearsal.internal"))'"""
    assert served.says(f"{lookup}; docker exec triton-main {lookup}") == [INSIDE, "gaierror"]


def test_units_have_only_the_needed_rights(served: Surface) -> None:
    """systemd's scale goes from 0 to 10; a unit without such settings has more than 9."""
    command = "systemd-analyze security --no-pager {} | sed -n 's/.*: \\([0-9.]*\\) .*/\\1/p' | tail -n 1"
    exposures = {unit: float(served.says(command.format(unit))[0]) for unit in EXPOSURE}
    assert {unit: value for unit, value in exposures.items() if value > EXPOSURE[unit]} == {}


def test_files_have_the_intended_owners(served: Surface) -> None:
    """Each path has its expected mode, and a single file belongs to another user than root."""
    modes = {path: served.says(f"stat -c '%a %u' {path} | sort -u") for path in MODES}
    assert modes == {path: [mode] for path, mode in MODES.items()}
    assert served.says(NOT_ROOTS) == ["/run/enginehouse/triton-main/key"]


@pytest.mark.parametrize(("user", "may"), [("0", True), (METRICS_UID, True), (STRANGER, False), ("61140", False)])
def test_of_the_machines_own_users_only_root_and_services_reach_triton(served: Surface, user: str, may: bool) -> None:
    """The test tries the published ports and the container's own address behind its bridge."""
    places = [f"{served.machine.address}/{port}" for port in SERVED] + [f"{served.container_address()}/8000"]
    dial = "timeout 5 bash -c '</dev/tcp/{0}' 2>/dev/null && echo {0}"
    dialled = [f"setpriv --reuid {user} --regid {user} --clear-groups {dial.format(place)}" for place in places]
    assert served.says("; ".join(dialled)) == (places if may else [])


def test_users_of_the_machine_neither_read_keys_nor_signal_containers(served: Surface) -> None:
    """The user can read neither the key's file nor any list of processes."""
    stranger = f"setpriv --reuid {STRANGER} --regid {STRANGER} --clear-groups"
    process = "$(docker inspect -f '{{.State.Pid}}' triton-main)"
    key = "/run/enginehouse/triton-main/key"
    commands = [f"{stranger} cat {key}", f"{stranger} kill -0 {process}", f"{stranger} cat /proc/{process}/environ"]
    assert (
        served.says("; ".join(f"{command} >/dev/null 2>&1 || echo refused" for command in commands)) == ["refused"] * 3
    )
    assert served.says(f"cat /proc/[0-9]*/cmdline 2>/dev/null | grep -acFf {key}") == ["0"]
    # The key is in use, so the search above could have found it.
    assert served.says(f"grep -aczFf {key} /proc/{process}/environ") == ["2"]


def test_no_prompt_is_in_any_log_at_the_highest_verbosity(served: Surface) -> None:
    """Requests go over HTTP and gRPC, streamed and whole, and are answered or refused; the logs have only their ids."""
    assert _asked_for_canary(served) == {200, 400, 500}
    served.says("journalctl --sync")
    matches = served.says(f"journalctl --all -q | grep -c {CANARY}; grep -rlaF {CANARY} /var /run /etc /tmp /root")
    assert matches == ["0"]
    assert int(served.says("journalctl -q -u triton@main | grep -c infer_request.cc")[0]) > 0


def test_five_hundred_hostile_requests_leave_the_server_unchanged(served: Surface) -> None:
    """The server does not restart, answers equally before and after, and our models answer nonsense with 4xx."""
    before = (served.vector(), served.text(), served.starts())
    answers_by_kind = Counter[malformed.Answer]()
    ours: set[str] = set()
    for model, count in (("gpt-oss-tiny", 60), ("minilm", 260)):
        answers = [
            *malformed.over_http(served.endpoint(8000), model, SEED, count),
            *malformed.over_grpc(served.endpoint(8001), model, SEED, count),
        ]
        answers_by_kind.update(answers)
        # The LLM's endpoints are the engine's own.
        ours = {answer for kind, answer in answers if kind in malformed.OURS}
    assert (served.vector(), served.text(), served.starts()) == before
    assert {answer for _, answer in answers_by_kind} & {"silent", "DEADLINE_EXCEEDED"} == set()
    assert (answers_by_kind.total(), ours) == (640, {"400", "INVALID_ARGUMENT"})


def test_a_body_beyond_the_limit_leaves_the_server_unchanged(served: Surface) -> None:
    """A body of 70 MiB is sent over HTTP and over gRPC."""
    before = served.starts()
    body = b" " * (70 << 20)
    assert malformed.send_http(served.endpoint(8000), "POST", "/v2/models/minilm/infer", {}, body) != "200"
    assert malformed.send_grpc(served.endpoint(8001), "ModelInfer", body) != "OK"
    assert (served.starts(), len(served.vector())) == (before, 384)


def test_rules_that_shut_us_out_are_taken_back_by_the_machine(served: Surface) -> None:
    """With a wrong source for SSH the run fails with a message, and the earlier rules are restored."""
    before = served.says(TABLE)
    run = served.run(verb=FIREWALL, SURFACE_SSH="198.51.100.0/24")
    assert (run.code, served.says(TABLE)) == (1, before)
    assert "the firewall's new rules shut this program out, and the host has taken them back" in run.output
    assert "/etc/enginehouse/firewall.nft" in run.output


def test_the_mended_inventory_converges(served: Surface) -> None:
    """With the right source no manual cleanup is needed."""
    changed = served.run(verb=FIREWALL, SURFACE_SSH=f"{INSIDE}/32").changed.values()
    again = served.run(verb=FIREWALL, SURFACE_SSH=f"{INSIDE}/32").changed
    assert (sorted(changed), again) == (["Firewall | Load the rules, confirmed"], {})
    assert (connects(served.machine.address, 22, INSIDE), connects(served.machine.address, 22, OUTSIDE)) == (
        True,
        False,
    )


def test_unconfirmed_unit_changes_are_reverted(served: Surface) -> None:
    """Another firewall blocks the gateway at that moment. The old unit is restored, and a plain run converges."""
    served.says("echo '# before' >>/etc/systemd/system/triton@.service; systemctl daemon-reload")
    served.machine.put("/run/locked-out.sh", LOCKED_OUT)
    served.says("systemd-run --quiet --collect bash /run/locked-out.sh")
    run = served.run()
    assert run.code == 1
    assert "the changed units (triton) shut this program out, and the host has taken them back" in run.output
    assert "the earlier settings are in force again" in run.output
    assert served.says("tail -n 1 /etc/systemd/system/triton@.service") == ["# before"]
    assert list(served.run().changed.values()) == ["Triton | Install programs and units"]
    assert served.run().changed == {}


def test_rules_outlive_a_reboot_and_docker_comes_after_them(served: Surface) -> None:
    """The rules are in force before Docker publishes a port."""
    before = served.says(TABLE)
    served.machine.reboot()
    assert served.says(TABLE) == before


def test_a_change_unconfirmed_at_a_power_cut_is_reverted_after_it(served: Surface) -> None:
    """The boot reverts the change before the network starts."""
    served.says(
        "python3 -B /usr/local/lib/enginehouse/host undo save trial /etc/own.conf; sync; echo new > /etc/own.conf"
    )
    served.machine.power_cycle()
    assert served.says("systemctl is-system-running --wait >/dev/null; ls /etc/own.conf /etc/enginehouse/undo") == [
        "/etc/enginehouse/undo:",
        "trial.taken-back.json",
    ]


def test_settings_of_docker_that_shut_us_out_are_taken_back(served: Surface) -> None:
    """Docker's bridge gets our network; the machine answers again, with docker0's old address."""
    served.says("systemctl stop triton@main")  # the server has to be drained first
    before = served.says("cat /etc/docker/daemon.json; ip -4 -brief address show docker0")
    run = served.run(verb=FOUNDATION, SURFACE_BIP=f"{INSIDE}/25")
    assert (run.code, served.says("cat /etc/docker/daemon.json; ip -4 -brief address show docker0")) == (1, before)
    assert "Docker's new settings shut this program out, and the host has taken them back" in run.output


def test_a_firewall_that_leaves_the_inventory_is_removed_completely(served: Surface) -> None:
    """Table, unit, program and rules are removed; the second run has no changes."""
    run = served.run(verb=FIREWALL, SURFACE_ALLOW="")
    left = served.says(f"{TABLE} 2>/dev/null; ls /etc/enginehouse/firewall.nft /usr/local/lib/enginehouse/firewall.sh")
    assert (run.code, left, served.run(verb=FIREWALL, SURFACE_ALLOW="").changed) == (0, [], {})


def _asked_for_canary(served: Surface) -> set[int]:
    """Returns HTTP statuses; over gRPC both calls are answered, or this raises."""
    wrong = [
        {"inputs": [{"name": "texts", "shape": [1, 1], "datatype": "BYTES", "data": [[CANARY, CANARY]]}]},
        {"inputs": [{"name": "texts", "shape": [1, 1], "datatype": "FP32", "data": [CANARY]}]},
    ]
    right = {"inputs": [{"name": "texts", "shape": [1, 1], "datatype": "BYTES", "data": [CANARY]}]}
    streamed = {"text_input": CANARY, "streaming": True, "sampling_param_max_tokens": 4}
    requests = [("/v2/models/minilm/infer", body_of_request) for body_of_request in (right, *wrong)]
    requests += [(f"/v2/models/gpt-oss-tiny/{verb}", streamed) for verb in ("generate_stream",)]
    with tritonclient.grpc.InferenceServerClient(served.endpoint(8001)) as client:
        ask.embed(client, "minilm", [[CANARY]])
        list(ask.generate(client, "gpt-oss-tiny", CANARY, 4))
    return {served.status("POST", path, json.dumps(body).encode()) for path, body in requests}
