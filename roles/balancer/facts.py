"""Facts of a host for the balancer role, asked in one command."""

from roles._pyinfra.facts import HostFacts, ask_files, ask_packages, ask_units, ask_value, script
from roles._pyinfra.role_facts import RoleFact
from roles._shipping.haproxy import DISTRIBUTION
from roles._shipping.places import PROGRAMS, command
from roles.balancer.defaults import CONFIG, UNIT_NAME

CHECKED = """awk '$1 == "backend" { b = $2 } b ~ /_http$/ && $1 == "http-check" && $2 == "send" { print b, $6 }' """
"""Shell that prints for each backend the page that a server has to answer."""


class BalancerHost(RoleFact):
    """HAProxy's package and units, our configuration, its checks, and its parts that are not in force."""

    def command(self, key: str = "") -> str:
        """`key` is the path of the certificate's private key, if there is one."""
        return script(
            ask_packages("haproxy"),
            ask_files(CONFIG),
            ask_units(UNIT_NAME, DISTRIBUTION),
            ask_value("key", f"[ -s {key} ] && stat -c '%a %U' {key}" if key else "true"),
            ask_value("checked", f"{CHECKED}{CONFIG}"),
            ask_value(
                "differs",
                f"[ ! -e {CONFIG} ] || [ ! -e {PROGRAMS}/host ] || {command('balancer')} differs || echo asked",
            ),
        )


def checked(facts: HostFacts) -> dict[str, tuple[str, ...]]:
    """The models of each pool that the host's current configuration checks; a pool without a configuration is
    absent."""
    models_by_pool: dict[str, list[str]] = {}
    for row in facts.value("checked").splitlines():
        backend, page = row.split()
        models = models_by_pool.setdefault(backend.removesuffix("_http"), [])
        if page.startswith("/v2/models/"):
            models.append(page.removeprefix("/v2/models/").removesuffix("/ready"))
    return {pool: tuple(models) for pool, models in models_by_pool.items()}
