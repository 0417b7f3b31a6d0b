"""The verb `enginehouse fit`: how many tokens and users fit on a GPU beside models."""

import json
from pathlib import Path

import click

from deploy.catalog import DEFAULT_RELEASE, PRECISIONS
from deploy.catalog.runtimes import SERVE, TRITON, VLLM
from deploy.cli.ranges import GPUS, MIB, TOKENS
from deploy.inventory.fleet import Fleet
from deploy.io.local_weights import look_around
from deploy.io.printing import refusals_shown, say, show

CACHES = ["auto", "bfloat16", "float16", "fp8", "int8"]


@click.command(
    short_help="Say how many tokens and users fit on a GPU beside models.",
    epilog="Example: enginehouse fit h100 gpt-oss-20b bge-reranker-large",
)
@click.argument("gpu")
@click.argument("models", nargs=-1, required=True)
@click.option("--release", default=DEFAULT_RELEASE, show_default=True, help="Release of Triton's image.")
@click.option("--tp", type=GPUS, default=1, show_default=True, help="GPUs the LLM is split over (tensor parallelism).")
@click.option("--hosts", type=GPUS, default=1, show_default=True, help="Hosts it is split over, a stage each.")
@click.option("--ep", type=GPUS, default=None, help="GPUs its experts are split over, whole (expert parallelism).")
@click.option("--runtime", type=click.Choice([TRITON, SERVE, VLLM]), default=None, help="The program of the LLM.")
@click.option("--path", type=click.Choice(["pytorch", "engine"]), default=None, help="How the LLM is served.")
@click.option(
    "--precision", type=click.Choice(sorted(PRECISIONS)), default=None, help="Precision of the LLM's weights."
)
@click.option("--cache", type=click.Choice(CACHES), default=None, help="Precision of the LLM's key/value cache.")
@click.option(
    "--max-seq-len", type=TOKENS, default=None, help="Tokens of the LLM's longest sequence, prompt and answer."
)
@click.option("--sm", default="", help="Compute capability of a card that the catalog lacks, without the point: 120.")
@click.option("--mib", type=MIB, default=None, help="Memory of that card in MiB, as nvidia-smi prints it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def fit(
    gpu: str,
    models: tuple[str, ...],
    release: str,
    tp: int,
    hosts: int,
    ep: int | None,
    runtime: str | None,
    path: str | None,
    precision: str | None,
    cache: str | None,
    max_seq_len: int | None,
    sm: str,
    mib: int | None,
    as_json: bool,
) -> None:
    """Print the tokens and simultaneous users that fit on GPU beside MODELS.

    GPU is a card of the catalog, the beginning of its name, or any name if --sm and --mib describe the card. A model is
    a name of the catalog, a hub id, or a directory with config.json and safetensors files.
    """
    from deploy.io.fit_models import models_of
    from deploy.planning.card_words import confirm_order
    from deploy.planning.fit import FitOptions, card_of, fit_of, near_card

    with refusals_shown("", as_json):
        if not (sm or mib):
            confirm_order(gpu, models)
        card, choice = (gpu, "") if sm or mib else near_card(gpu)
        declared = card_of(card, sm, mib or 0)
        if choice:
            say(choice, err=True)
        wanted, around = models_of(models, look_around(Fleet(()), Path.cwd()), Path.cwd(), release)
        wish = FitOptions(
            gpus=tp,
            hosts=hosts,
            expert=ep or 0,
            path=path or "",
            runtime=runtime or "",
            precision=precision or "",
            cache=cache or "",
            max_seq_len=max_seq_len or 0,
        )
        fitted = fit_of(card, wanted, release, around, wish, declared)
        if as_json:
            say(json.dumps(fitted.to_json(), indent=2, ensure_ascii=False))
        else:
            from deploy.reports.plan import fit_report

            show(fit_report(fitted))
