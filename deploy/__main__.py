"""The command `enginehouse`: the verbs of `deploy/cli/`, each of which imports its own needs when it runs."""

import io
import signal
import sys
import threading

try:
    import click

    sys.stdout = sys.stdout or io.StringIO()  # closed by the shell: `>&-`
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a locale without the signs of the output
    is_started_here = threading.current_thread() is threading.main_thread()
    interrupt = signal.getsignal(signal.SIGINT)
    if is_started_here and interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports ends without a traceback
except ModuleNotFoundError:
    sys.exit(f"This Python ({sys.executable}) lacks the project's packages. Write: make plan; . .venv/bin/activate")

from deploy.cli.ask import ask
from deploy.cli.bench import bench
from deploy.cli.bundle import bundle
from deploy.cli.check import check
from deploy.cli.cost import cost
from deploy.cli.doctor import doctor
from deploy.cli.drift import drift
from deploy.cli.export import export
from deploy.cli.fit import fit
from deploy.cli.init import init
from deploy.cli.key import key
from deploy.cli.migrate import migrate
from deploy.cli.monitoring import monitoring
from deploy.cli.other_verbs import Verbs
from deploy.cli.pin import pin
from deploy.cli.plan import plan
from deploy.cli.promote import promote
from deploy.cli.size import size
from deploy.cli.top import top
from deploy.cli.usage import usage

if is_started_here:
    signal.signal(signal.SIGINT, interrupt)


@click.version_option(package_name="enginehouse", message="%(prog)s %(version)s")
@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: enginehouse plan inventories/h100.py",
)
def main() -> None:
    """Plan, check and measure fleets of model servers; pyinfra deploys the plan."""


VERBS = (
    plan,
    fit,
    promote,
    check,
    pin,
    init,
    ask,
    drift,
    doctor,
    key,
    bench,
    cost,
    size,
    usage,
    migrate,
    top,
    monitoring,
    export,
    bundle,
)
for verb in VERBS:
    main.add_command(verb)


if __name__ == "__main__":
    main()
