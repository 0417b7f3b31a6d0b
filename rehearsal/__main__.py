"""`python -m rehearsal`: commands for the machines. An inventory decides what is deployed to them."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import click

from rehearsal import faults, gateway, machines, requirements, services
from rehearsal.apt_sources import CODENAMES
from rehearsal.hardware import KINDS
from rehearsal.places import Places, RehearsalRefused

release_option = click.option(
    "--release",
    type=click.Choice(sorted(CODENAMES)),
    help=f"Of Debian or Ubuntu [13, or from the name: {', '.join(f'{prefix}…' for prefix in machines.PREFIXES)}]",
)


@click.group(help=__doc__)
def main() -> None:
    """The group of commands."""


@main.command()
@click.argument("names", nargs=-1)
@release_option
@click.option("--kind", type=click.Choice(["nspawn", "qemu"]), default="nspawn", help="qemu: a kernel of its own")
@click.option("--gpu", type=click.Choice(sorted(KINDS)), default="h100", show_default=True)
@click.option("--install", is_flag=True, help="apt-get install what is missing on this machine first")
def up(names: tuple[str, ...], release: str | None, kind: str, gpu: str, install: bool) -> None:
    """Make and start machines [d13a]; running machines are not changed."""
    places = Places.here()
    if install:
        requirements.install(requirements.missing(places, kind))
    for made in sorted(CODENAMES):
        chosen = [name for name in names or ("d13a",) if (release or machines.release_of(name)) == made]
        if chosen:
            began = time.monotonic()
            for machine in machines.up(chosen, made, KINDS[gpu](), places=places, kind=kind):
                click.echo(f"{machine.name}  {machine.address}  {machine.os}  {machine.state}")
            click.echo(f"{time.monotonic() - began:.1f} s; ssh -F {places.ssh_config} {chosen[0]}")


@main.command()
def down() -> None:
    """Remove every machine and service of this rehearsal, with bridge, rules and mounts; snapshots and cache stay."""
    machines.down()
    services.services_down()


@main.command()
def status() -> None:
    """List the machines: name, address, release, state."""
    for machine in machines.known():
        click.echo(f"{machine.name:12}{machine.address:16}{machine.os}  {machine.kind}  {machine.state}")


@main.command()
@click.argument("name")
def start(name: str) -> None:
    """Start a machine that is off."""
    machines.named(name).start()


@main.command()
@click.argument("name")
def stop(name: str) -> None:
    """Shut a machine down in order."""
    machines.named(name).stop()


@main.command("power-cycle")
@click.argument("name")
def power_cycle(name: str) -> None:
    """Pull the plug of a machine and boot it again."""
    machines.named(name).power_cycle()


@main.command()
@click.argument("name")
def reboot(name: str) -> None:
    """Reboot a machine from inside."""
    machines.named(name).reboot()


@main.command()
@click.argument("name")
@click.argument("snapshot")
def snapshot(name: str, snapshot: str) -> None:
    """Keep the state of a stopped machine under a name."""
    click.echo(machines.snapshot(machines.named(name), snapshot))


@main.command()
@click.argument("snapshot")
@click.argument("names", nargs=-1, required=True)
def fork(snapshot: str, names: tuple[str, ...]) -> None:
    """Make and start machines from a snapshot."""
    for machine in machines.up(names, snapshot=snapshot):
        click.echo(f"{machine.name}  {machine.address}  {machine.os}  {machine.state}")


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("command", nargs=-1)
def ssh(name: str, command: tuple[str, ...]) -> None:
    """Run a command in a machine over SSH, or open a shell."""
    sys.exit(machines.named(name).ssh(*command).returncode)


@main.command("gateway")
@click.argument("name", default="")
def gateway_(name: str) -> None:
    """Print url, key and ca of the gateway of a machine [the first that has one] as JSON, for a client here.

    The first time, a key is made and a port of this computer is forwarded; both stay until `down`.
    """
    known = [machines.named(name)] if name else machines.known()
    running = [machine for machine in known if machine.state == "running"]
    first = running[0] if running else None
    machine = next((machine for machine in running if gateway.has_one(machine)), first)
    if machine is None:
        raise RehearsalRefused("no machine of this rehearsal runs\n  try     make rehearse")
    click.echo(json.dumps(gateway.opened(machine).to_json(), indent=2))


@main.command("ssh-config")
def ssh_config() -> None:
    """Write the ssh_config that names the machines, and print its path and content."""
    places = Places.here()
    machines.write_ssh_config(places)
    click.echo(f"# {places.ssh_config}\n{places.ssh_config.read_text()}", nl=False)


@main.command()
@click.argument("name")
@click.argument("rate")
def limit(name: str, rate: str) -> None:
    """Limit a machine's downloads to RATE (100mbit); `none` lifts the limit."""
    machines.named(name).limit_rate(None if rate == "none" else rate)


@main.command("requirements")
@click.option("--packages", is_flag=True, help="only the Debian packages needed here, for apt-get install")
@click.option("--install", is_flag=True, help="apt-get install what packages bring first")
@click.option("--tests", is_flag=True, help="with what the project's tests need beside")
@click.option("--faults", is_flag=True, help="with what machines that have a kernel of their own need beside")
@click.option("--pictures", is_flag=True, help="with the browser that draws pages")
def requirements_(packages: bool, install: bool, tests: bool, faults: bool, pictures: bool) -> None:
    """List everything that this machine lacks to host rehearsal machines."""
    if packages:
        click.echo(" ".join(requirements.packages()))
        return
    if install:
        requirements.install(requirements.missing_packages(tests, faults, pictures))
    requirements.require(Places.here())
    click.echo("nothing is missing")


@main.command()
@click.argument("name")
@click.argument("machine_name", metavar="MACHINE")
@click.option("--undo", is_flag=True, help="put right what a person would mend")
def fault(name: str, machine_name: str, undo: bool) -> None:
    """Cause a fault on a machine; `faults` lists all faults."""
    chosen, machine = faults.fault(name), machines.named(machine_name)
    if undo:
        chosen.undo(machine)
        click.echo(f"{machine.name}: {chosen.name} is put right")
        return
    chosen.strike(machine)
    click.echo(f"{machine.name}: {chosen.summary}\n  then    {chosen.happens}")


@main.command("faults")
def faults_() -> None:
    """List the faults, and the moments of a deploy at which `make rehearse FAULT=…` can strike."""
    for kind in faults.FAULTS.values():
        click.echo(f"{kind.name:20}{kind.summary}\n{'':20}at      {kind.moment}; on {' and '.join(kind.kinds)}")


if __name__ == "__main__":
    try:
        main()
    except RehearsalRefused as refused:
        click.echo(refused, err=True)
        sys.exit(1)
    except subprocess.CalledProcessError as failed:
        click.echo(f"{failed.cmd}: exit status {failed.returncode}\n{failed.stderr or ''}", err=True)
        sys.exit(1)
