"""Fixtures of the smoke tests: the plan of the inventory, the hosts over the same SSH settings, and a client for each
server.

The suite only reads. It takes every expectation from the plan, so it can be pointed at any inventory. A run without a
collected or passed test is a failure: an empty report must never look like a healthy fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import testinfra
import tritonclient.grpc
import tritonclient.http
from testinfra.host import Host

from deploy.inventory.ssh_config import address_of, in_brackets, ssh_config, ssh_words
from deploy.io.ask import requests
from deploy.io.endpoints import Endpoint, connected_endpoint
from deploy.io.inventory import host_data, load_plan
from deploy.io.model_requests import Request
from deploy.planning.plan import Plan
from deploy.refusals.errors import Refusal
from deploy.slices.host import ModelSlice, ServerSlice, Slice
from deploy.slices.traffic import BalancerSlice

# pyinfra's command line patches sockets and threads when imported; gRPC's client needs the real ones.
with mock.patch("gevent.monkey.patch_all"):
    import pyinfra_cli  # noqa: F401


def pytest_configure(config: pytest.Config) -> None:
    """Loads the inventory once, so that a refused inventory is reported unchanged, not as a broken fixture."""
    try:
        config.smoke_plan = load_plan(
            config.getoption("--inventory"), data=config.getoption("--data"), limit=config.getoption("--limit")
        )
    except Refusal as refused:
        pytest.exit(str(refused), returncode=pytest.ExitCode.USAGE_ERROR)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out tests of balancers and of LLMs beside Triton if the inventory has none, instead of skipping them."""
    plan: Plan = config.smoke_plan
    beside = any(server.standalone_llm for slice_ in plan.slices for server in slice_.servers)
    is_there = {"test_balancer.py": bool(plan.balancers), "test_beside.py": beside}
    return None if is_there.get(collection_path.name, True) else True


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives a test one case per host, per server or per model, by the fixtures that it takes."""
    plan: Plan = metafunc.config.smoke_plan
    slices = plan.slices
    if "model" in metafunc.fixturenames:
        kind = getattr(metafunc.function, "kind", None)
        cases = [
            pytest.param((mine, server, model), id=f"{mine.host}-{server.name}-{model.name}")
            for mine in slices
            for server in mine.servers
            for model in server.in_triton
            if kind in (None, model.kind)
        ]
        metafunc.parametrize("case", cases, scope="session")
    elif "server" in metafunc.fixturenames:
        cases = [
            pytest.param((mine, server, None), id=f"{mine.host}-{server.name}")
            for mine in slices
            for server in mine.servers
            if server.standalone_llm or metafunc.module.__name__.rpartition(".")[2] != "test_beside"
        ]
        metafunc.parametrize("case", cases, scope="session")
    elif "edge" in metafunc.fixturenames:
        metafunc.parametrize(
            "edge", [pytest.param(balancer, id=balancer.host) for balancer in plan.balancers], scope="session"
        )
    elif "case" in metafunc.fixturenames:
        cases = [pytest.param((mine, None, None), id=mine.host) for mine in slices]
        metafunc.parametrize("case", cases, scope="session")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Prints a warning if no model was asked."""
    if not terminalreporter.stats.get("passed"):
        terminalreporter.write_line("smoke: no test passed, so nothing is known about this service", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Makes a run in which all tests were skipped a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == 0 and not session.config.option.collectonly and not (reporter and reporter.stats.get("passed")):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.fixture(scope="session")
def login(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Host]:
    """Returns a function that connects to a named host through OpenSSH and sudo, only by the inventory's settings."""
    folder, hosts = tmp_path_factory.mktemp("ssh"), _data(request.config)

    def over_ssh(name: str) -> Host:
        data, path = hosts[name], folder / name
        file = data.get("ssh_config_file")
        path.write_text(ssh_config(name, data, str(Path(file).resolve()) if file else ""))
        return testinfra.get_host(f"ssh://{in_brackets(address_of(name, data))}", ssh_config=str(path), sudo=True)

    return over_ssh


@pytest.fixture(scope="session")
def random_weights(request: pytest.FixtureRequest, mine: Slice) -> tuple[str, ...]:
    """Returns this host's models with meaningless weights (host data `own_random_weights`): tests check only shapes."""
    return tuple(_data(request.config)[mine.host].get("own_random_weights", ()))


def _data(config: pytest.Config) -> dict[str, dict[str, Any]]:
    return host_data(config.getoption("--inventory"), data=config.getoption("--data"))


@pytest.fixture(scope="session")
def mine(case: tuple[Slice, ServerSlice | None, ModelSlice | None]) -> Slice:
    """Returns the host's slice of the plan."""
    return case[0]


@pytest.fixture(scope="session")
def server(case: tuple[Slice, ServerSlice | None, ModelSlice | None]) -> ServerSlice:
    """Returns a planned Triton."""
    assert case[1] is not None
    return case[1]


@pytest.fixture(scope="session")
def model(case: tuple[Slice, ServerSlice | None, ModelSlice | None]) -> ModelSlice:
    """Returns a planned model."""
    assert case[2] is not None
    return case[2]


@pytest.fixture(scope="session")
def machine(mine: Slice, login: Callable[[str], Host]) -> Host:
    """Returns the host through OpenSSH, with sudo."""
    return login(mine.host)


@pytest.fixture(scope="session")
def balancing(edge: BalancerSlice, login: Callable[[str], Host]) -> Host:
    """Returns a balancer through OpenSSH, with sudo; `edge` is its slice of the plan."""
    return login(edge.host)


@pytest.fixture(scope="session")
def endpoint(request: pytest.FixtureRequest, mine: Slice, server: ServerSlice) -> Iterator[Endpoint]:
    """Yields the server's address, or a tunnel if it listens on the host's loopback only."""
    with connected_endpoint(server, ssh_words(mine.host, _data(request.config)[mine.host])) as reached:
        yield reached


@pytest.fixture(scope="session")
def line_to_ask(request: pytest.FixtureRequest, mine: Slice, server: ServerSlice, model: ModelSlice) -> Request:
    """Returns the question of `enginehouse ask` to this model of this server."""
    plan: Plan = request.config.smoke_plan
    lines = requests(plan.only([mine.host]), _data(request.config), model.name, ())
    return next(question for question in lines if question.server.name == server.name)


@pytest.fixture(scope="session")
def http(endpoint: Endpoint) -> Iterator[tritonclient.http.InferenceServerClient]:
    """Yields a client over HTTP."""
    with tritonclient.http.InferenceServerClient(endpoint.http, network_timeout=120, connection_timeout=120) as client:
        yield client


@pytest.fixture(scope="session")
def grpc(endpoint: Endpoint) -> Iterator[tritonclient.grpc.InferenceServerClient]:
    """Yields a client over gRPC."""
    with tritonclient.grpc.InferenceServerClient(endpoint.grpc) as client:
        yield client
