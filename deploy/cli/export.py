"""The verbs `enginehouse export …`: a plan in the form in which another program starts hosts."""

from pathlib import Path

import click

from deploy.cli.knobs import knobs
from deploy.exports.slurm.cluster import RUNTIMES, Cluster
from deploy.io.inventory import load_plan
from deploy.io.printing import refusals_shown, say
from deploy.planning.groups import not_exported
from deploy.refusals import refuse_all

EXAMPLE = (
    "enginehouse export cloud-init inventories/h100.py h100-01.example.internal "
    "--from https://files.example.internal/enginehouse.tar.gz --sha256 DIGEST"
)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    short_help="Write user-data, manifests of Kubernetes, jobs of Slurm.",
    epilog=f"Example: {EXAMPLE}",
)
def export() -> None:
    """Write a plan in the form in which a cloud, Kubernetes or Slurm starts hosts, Pods or jobs."""


@export.command("cloud-init", short_help="Write user-data of cloud-init for hosts.", epilog=f"Example: {EXAMPLE}")
@click.argument("inventory")
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@click.option("--from", "source", default="", metavar="URL", help="This repository's archive; or a path on the image.")
@click.option("--sha256", default="", metavar="DIGEST", help="Of the archive: verified before anything of it is run.")
@click.option("--secrets", default="", metavar="COMMAND", help="Run on the host; prints a line NAME=VALUE a secret.")
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), help="Write HOST.yaml into this folder.")
def cloud_init(
    inventory: str, hosts: tuple[str, ...], source: str, sha256: str, secrets: str, into: Path | None
) -> None:
    """Write user-data with which each HOST of INVENTORY deploys this plan on itself at first boot.

    Touches no host. Without --into the text is on standard output; the sizes are on standard error. No secret is in it.
    """
    from deploy.io.export import confirm_place, rendered, written
    from deploy.reports.cloud_init import Archive

    with refusals_shown(inventory, False):
        confirm_place(hosts, into)
        plan = load_plan(inventory, (), (), knobs())
        refuse_all(not_exported(plan.slices))
        texts = rendered(plan, hosts, inventory, Archive(source=source, sha256=sha256), secrets)
        if into is None:
            say(texts[0].text, nl=False)
            say(f"{texts[0].host}: {texts[0].sizes}", err=True)
        else:
            for path, text in written(texts, into):
                say(f"wrote {path}: {text.sizes}")
        say(f"expects {plan.digest}; the archive has to hold {inventory} as it is now", err=True)


@export.command(
    short_help="Write manifests that run a plan's servers in Pods.",
    epilog="Example: enginehouse export kubernetes inventories/h100.py -o manifests",
)
@click.argument("inventory")
@click.option(
    "-o", "folder", required=True, type=click.Path(file_okay=False, path_type=Path), help="The folder to write."
)
@click.option("--namespace", default="enginehouse", show_default=True, help="Of all objects.")
@click.option("--storage-class", default="", help="Of the claims; without it the cluster's default.")
@click.option(
    "--access-mode",
    default="ReadWriteOnce",
    show_default=True,
    type=click.Choice(["ReadWriteOnce", "ReadWriteMany"]),
    help="Of the claims.",
)
@click.option("--gateway-image", default="", metavar="NAME:TAG", help="The one that you build and push.")
def kubernetes(
    inventory: str, folder: Path, namespace: str, storage_class: str, access_mode: str, gateway_image: str
) -> None:
    """Write plain YAML for kubectl to a folder; it runs what a deploy runs on the hosts of INVENTORY.

    Touches no host and no cluster. Images, flags, ports and digests are those of the plan. No secret is in it.
    """
    from deploy.cli.rendered import served
    from deploy.exports.kubernetes.gateway import PLACEHOLDER
    from deploy.exports.kubernetes.manifests import files
    from deploy.exports.kubernetes.refused import name_problems
    from deploy.exports.kubernetes.weights import Storage
    from deploy.io.export_folder import confirm_folder, programs, written
    from deploy.io.inventory import host_data

    with refusals_shown(inventory, False):
        image = gateway_image or PLACEHOLDER
        refuse_all(name_problems(namespace, storage_class, image))
        confirm_folder(folder)
        plan = load_plan(inventory, (), (), knobs())
        refuse_all(not_exported(plan.slices))
        rendered = served(plan, inventory, host_data(inventory), programs())
        storage = Storage(storage_class=storage_class, access_mode=access_mode)
        paths = list(written(files(rendered, namespace, storage, image), folder))
        say(f"wrote {len(paths)} files to {folder}; {folder / 'README.md'} says what to type")


@export.command(
    short_help="Write batch files that run a plan's servers as jobs.",
    epilog="Example: enginehouse export slurm inventories/fleet.py -o jobs --runtime pyxis --root /shared/enginehouse",
)
@click.argument("inventory")
@click.argument("hosts", nargs=-1, metavar="[HOST]...")
@click.option(
    "-o", "folder", required=True, type=click.Path(file_okay=False, path_type=Path), help="The folder to write."
)
@click.option(
    "--runtime", default=Cluster.runtime, show_default=True, type=click.Choice(RUNTIMES), help="Of containers on nodes."
)
@click.option(
    "--root", default=Cluster.root, show_default=True, help="Directory shared by all nodes, with the folder `weights`."
)
@click.option("--time", "limit", default=Cluster.time, show_default=True, help="Time limit of a serving job.")
def slurm(inventory: str, hosts: tuple[str, ...], folder: Path, runtime: str, root: str, limit: str) -> None:
    """Write batch files to a folder; with them, Slurm's nodes serve as the hosts of INVENTORY, or as these HOSTs.

    Touches no host and no cluster. Images, flags, ports and digests are those of the plan. No secret is in it.
    """
    from deploy.cli.rendered import served
    from deploy.exports.slurm.folder import chosen, files, notes
    from deploy.io.export_folder import OF_JOBS, STEPS, confirm_folder, programs, steps, written
    from deploy.io.inventory import host_data

    with refusals_shown(inventory, False):
        confirm_folder(folder, STEPS)
        plan = load_plan(inventory, (), (), knobs())
        refuse_all(not_exported(plan.slices))
        rendered = chosen(served(plan, inventory, host_data(inventory), programs(OF_JOBS)), hosts)
        texts = files(rendered, Cluster(runtime=runtime, root=root, time=limit), steps())
        paths = list(written(texts, folder))
        say(f"wrote {len(paths)} files to {folder}; {folder / 'README.md'} says what to type")
        for note in notes(rendered):
            say(note, err=True)
