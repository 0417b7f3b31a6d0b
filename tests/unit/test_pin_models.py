"""From a model's name to a plan in two commands: `enginehouse pin` locks the hub's files, and plans read the lock.

More lines than usual: every verb that takes a name shares one hub.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from deploy.__main__ import main
from deploy.io import hub as hub_client
from deploy.io.inventory import confirm_loads
from deploy.io.inventory import planned as planned_by_verbs
from deploy.io.model_lock import read_lock
from deploy.refusals.errors import Refusal
from tests.unit.hubs import LLAMA, STRANGER, TOKEN, Standing, llama_files, repository, standing, weights

BERT = {
    "architectures": ["BertModel"],
    "num_hidden_layers": 12,
    "hidden_size": 384,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "vocab_size": 30_522,
    "max_position_embeddings": 512,
}
INVENTORY = """
from deploy.spec import LLM, Checkpoint, Embedder, Hub, Machine, Secret, Server, Weights

gpu = (
    ["h100-01"],
    {
        "machine": Machine(os="ubuntu-24.04", gpu="h100-80"),
        "release": "26.07",
        "hub": Hub(endpoint="ENDPOINT", token=Secret.env("HUB_TOKEN")),
        "servers": (Server(name="main", models=(MODELS,)),),
    },
)
"""

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """A hub with an LLM outside the catalog, an embedder, and a gated model."""
    root = tmp_path_factory.mktemp("hub")
    repository(root / "models/llama-1b", LLAMA, llama_files())
    files = {"model.safetensors": weights(a=("F32", [1, 33_000_000])), "tokenizer.json": b"{}"}
    repository(root / "models/minilm", BERT, files)
    repository(root / "models/gpt-oss-tiny", LLAMA, llama_files())
    whisper = {"architectures": ["WhisperForConditionalGeneration"], "d_model": 1280, "vocab_size": 51_866}
    repository(root / "models/whisper", whisper, files)
    with standing(root / "models", root / "state") as running:
        yield running


@pytest.fixture
def hub(made: Standing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Standing:
    """The hub, with an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUB_TOKEN", TOKEN)
    monkeypatch.setenv("HF_ENDPOINT", made.endpoint)
    monkeypatch.setattr(hub_client, "PAUSE_SECONDS", 0)
    made.heard.requests.clear()
    made.heard.busy.clear()
    made.heard.moved.clear()
    return made


def inventory(hub: Standing, *models: str) -> str:
    """The file of an inventory with these models, under a new name, because pyinfra caches files by name."""
    file = f"mine_{next(NUMBERS)}.py"
    Path(file).write_text(INVENTORY.replace("MODELS", ", ".join(models)).replace("ENDPOINT", hub.endpoint))
    return file


def enginehouse(*words: str) -> Result:
    """Runs the command as typed, and returns its output."""
    return CliRunner().invoke(main, words)


def planned(file: str) -> dict[str, Any]:
    """The plan as JSON."""
    result = enginehouse("plan", file, "--json")
    assert result.exit_code == 0, result.output
    plan: dict[str, Any] = json.loads(result.stdout)
    return plan


def test_from_a_name_to_a_plan_in_two_commands(hub: Standing) -> None:
    """The inventory has no number of config.json, no commit and no list of files."""
    file = inventory(hub, 'LLM("rehearsal/llama-1b")', 'Embedder("rehearsal/minilm")')
    pinned = enginehouse("pin", file, "--models")
    assert pinned.exit_code == 0
    commit = hub.repositories["rehearsal/llama-1b"].commit
    assert f"rehearsal/llama-1b locked at {commit[:12]}, 6 files, 0.0 GB (models.lock.json)" in pinned.stdout
    models = planned(file)["hosts"]["h100-01"]["servers"][0]["models"]
    assert [model["name"] for model in models] == ["minilm", "llama-1b"]
    fetched = models[1]["weights"]
    assert (fetched["repository"], fetched["revision"]) == ("rehearsal/llama-1b", commit)
    assert models[1]["memory"]["weights_mib"] == 2358


def test_a_plan_asks_no_hub(hub: Standing) -> None:
    """A plan reads only the lock, and two plans are equal."""
    file = inventory(hub, 'LLM("rehearsal/llama-1b")')
    enginehouse("pin", file, "--models")
    hub.heard.requests.clear()
    assert planned(file)["digest"] == planned(file)["digest"]
    assert hub.heard.requests == []


def test_a_name_that_is_not_locked_is_refused_with_the_command(hub: Standing) -> None:
    file = inventory(hub, 'LLM("rehearsal/llama-1b")')
    refused = enginehouse("plan", file)
    assert refused.exit_code == 1
    assert "rehearsal/llama-1b is not in the lock" in refused.stderr
    assert f"try     enginehouse pin {file}" in refused.stderr


def test_the_lock_is_sorted_and_says_everything_in_words(hub: Standing) -> None:
    """A reviewer sees each file's size, the commit, and the numbers of config.json."""
    enginehouse("pin", inventory(hub, 'LLM("rehearsal/llama-1b")', 'Embedder("rehearsal/minilm")'), "--models")
    lock = json.loads(Path("models.lock.json").read_text())
    assert (lock["form"], list(lock["models"])) == (1, ["rehearsal/llama-1b", "rehearsal/minilm"])
    entry = lock["models"]["rehearsal/llama-1b"]
    assert list(entry) == ["repository", "commit", "bytes", "elements", "config", "files", "beside"]
    assert (entry["elements"], entry["bytes"]) == ({"BF16": 1_235_814_400}, 2_471_628_800)
    assert entry["config"] == dict(sorted(LLAMA.items()))


def test_a_second_pin_asks_nothing_and_moves_nothing(hub: Standing) -> None:
    file = inventory(hub, 'LLM("rehearsal/llama-1b")')
    enginehouse("pin", file, "--models")
    before = Path("models.lock.json").read_bytes()
    hub.heard.requests.clear()
    again = enginehouse("pin", file, "--models")
    assert (again.stdout, hub.heard.requests) == (f"{file} names no model that is not locked\n", [])
    assert Path("models.lock.json").read_bytes() == before


def test_an_update_says_whether_the_hub_has_moved(hub: Standing) -> None:
    file = inventory(hub, 'LLM("rehearsal/llama-1b")')
    enginehouse("pin", file, "--models")
    assert "rehearsal/llama-1b unchanged at" in enginehouse("pin", file, "--models", "--update").stdout
    lock = Path("models.lock.json")
    lock.write_text(lock.read_text().replace(hub.repositories["rehearsal/llama-1b"].commit, "0" * 40))
    assert "rehearsal/llama-1b moved at" in enginehouse("pin", file, "--models", "--update").stdout


def test_a_refused_repository_costs_no_other_one_its_lock(hub: Standing) -> None:
    """Every answer is stored; the second pin asks only for the rest."""
    file = inventory(hub, 'LLM("rehearsal/llama-1b")', 'LLM("rehearsal/none", name="none")')
    refused = enginehouse("pin", file, "--models")
    assert (refused.exit_code, "404: no such repository" in refused.stderr) == (1, True)
    assert list(read_lock(Path("models.lock.json"))) == ["rehearsal/llama-1b"]


def test_a_renamed_repository_is_locked_and_its_new_name_reported(hub: Standing) -> None:
    hub.heard.moved["/former/llama/"] = "/rehearsal/llama-1b/"
    pinned = enginehouse("pin", inventory(hub, 'LLM("former/llama")'), "--models")
    assert "its name on the hub is rehearsal/llama-1b now" in pinned.stdout
    assert list(read_lock(Path("models.lock.json"))) == ["former/llama"]


def test_a_token_without_access_to_one_of_three_costs_the_others_nothing(
    hub: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second pin, with access, asks only for that one."""
    names = ("llama-1b", "gpt-oss-tiny", "minilm")
    file = inventory(hub, *(f'{"Embedder" if name == "minilm" else "LLM"}("rehearsal/{name}")' for name in names))
    monkeypatch.setenv("HUB_TOKEN", STRANGER)
    refused = enginehouse("pin", file, "--models")
    assert (refused.exit_code, "403: gated" in refused.stderr) == (1, True)
    assert list(read_lock(Path("models.lock.json"))) == ["rehearsal/llama-1b", "rehearsal/minilm"]
    monkeypatch.setenv("HUB_TOKEN", TOKEN)
    hub.heard.requests.clear()
    assert enginehouse("pin", file, "--models").exit_code == 0
    assert all("gpt-oss-tiny" in path or "/cdn/" in path for path, _wanted in hub.heard.requests)


def test_a_lock_that_was_cut_while_it_was_written_is_refused_and_made_again(hub: Standing) -> None:
    """The remedy is the one that is printed: to remove the file and pin once more."""
    file = inventory(hub, 'LLM("rehearsal/llama-1b")')
    enginehouse("pin", file, "--models")
    whole = Path("models.lock.json").read_text()
    Path("models.lock.json").write_text(whole[: len(whole) // 2])
    assert "remove it and type enginehouse pin" in enginehouse("pin", file, "--models").stderr
    Path("models.lock.json").unlink()
    assert enginehouse("pin", file, "--models").exit_code == 0
    assert Path("models.lock.json").read_text() == whole


def test_a_gated_model_is_locked_with_the_token_of_the_inventory(hub: Standing) -> None:
    """The token is in no lock and in no output."""
    pinned = enginehouse("pin", inventory(hub, 'LLM("rehearsal/gpt-oss-tiny")'), "--models")
    assert "rehearsal/gpt-oss-tiny locked at" in pinned.stdout
    assert TOKEN not in pinned.output + Path("models.lock.json").read_text()


def test_a_revision_after_at_is_locked_to_its_commit(hub: Standing) -> None:
    file = inventory(hub, 'LLM("rehearsal/llama-1b@main")')
    enginehouse("pin", file, "--models")
    (model,) = planned(file)["hosts"]["h100-01"]["servers"][0]["models"]
    assert (model["name"], model["weights"]["revision"]) == (
        "llama-1b",
        hub.repositories["rehearsal/llama-1b"].commit,
    )


TYPED = (
    'LLM(name="mine", weights=Weights.hub("rehearsal/llama-1b", "{commit}"), checkpoint=Checkpoint('
    'architecture="LlamaForCausalLM", parameters=1_235_814_400, layers={layers}, hidden=2048, heads=32, kv_heads=8, '
    "head_dim=64, intermediate=8192, vocabulary=128_256, positions=131_072))"
)


@pytest.mark.parametrize(("layers", "exit_code"), [(16, 0), (32, 1)])
def test_typed_numbers_are_compared_with_the_files(hub: Standing, layers: int, exit_code: int) -> None:
    """The refusal offers the model's name, with which the numbers are read from the files."""
    commit = hub.repositories["rehearsal/llama-1b"].commit
    file = inventory(hub, TYPED.format(commit=commit, layers=layers))
    enginehouse("pin", file, "--models")
    result = enginehouse("plan", file)
    assert result.exit_code == exit_code
    if exit_code:
        assert "seen    layers=32\n  wanted  layers=16, as rehearsal/llama-1b/config.json has them" in result.stderr
        assert f'try     LLM("rehearsal/llama-1b@{commit}")' in result.stderr


def test_numbers_of_a_repository_that_only_hosts_may_read_are_planned_as_typed(hub: Standing) -> None:
    """The pin notes that the numbers were not compared."""
    file = inventory(hub, TYPED.format(commit="d" * 40, layers=16))
    pinned = enginehouse("pin", file, "--models")
    assert (pinned.exit_code, "its typed numbers are not compared" in pinned.stdout) == (0, True)
    assert planned(file)["hosts"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"form": 2, "models": {}}', '{"form": 1, "models": {"a/b": 5}}'])
def test_a_lock_that_was_merged_badly_is_refused(hub: Standing, text: str) -> None:
    file = inventory(hub, 'LLM("rehearsal/llama-1b")')
    Path("models.lock.json").write_text(text)
    refused = enginehouse("plan", file)
    assert (refused.exit_code, "models.lock.json is not a lock of models" in refused.stderr) == (1, True)
    with pytest.raises(Refusal):
        read_lock(Path("models.lock.json"))


def test_fit_and_size_take_a_name_of_the_hub(hub: Standing) -> None:
    """Without a lock the hub is asked only for this command; nothing is written."""
    fitted = enginehouse("fit", "h100", "rehearsal/llama-1b", "--json")
    assert fitted.exit_code == 0, fitted.output
    words = ("size", "--users", "10", "--prompt", "1000", "--answer", "100", "rehearsal/llama-1b", "--gpu", "h100")
    assert enginehouse(*words).exit_code == 0
    assert not Path("models.lock.json").exists()


def test_fit_and_size_name_an_architecture_that_is_not_served(hub: Standing) -> None:
    """The numbers that its config.json has under other names are not judged: earlier they hid the reason."""
    refused = enginehouse("fit", "h100", "rehearsal/whisper")
    assert "whisper: WhisperForConditionalGeneration is an encoder-decoder model" in refused.stderr
    assert "problems" not in refused.stderr and "positions" not in refused.stderr
    words = ("size", "--users", "10", "--prompt", "1000", "--answer", "100", "rehearsal/whisper", "--gpu", "h100")
    assert "encoder-decoder" in " ".join(enginehouse(*words).output.split())


def test_fit_reads_the_lock_before_it_asks(hub: Standing) -> None:
    enginehouse("pin", inventory(hub, 'LLM("rehearsal/llama-1b")'), "--models")
    hub.heard.requests.clear()
    assert (enginehouse("fit", "h100", "rehearsal/llama-1b").exit_code, hub.heard.requests) == (0, [])


def test_init_knows_the_kind_of_a_model_by_its_files(hub: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    """The inventory names each model, and needs a pin but no number."""
    answers = "os=ubuntu-24.04\nkernel=6.8.0-45-generic\ngpu=10de:2330\nmemory_kib=209715200\ndisk_mib=900000\n"
    monkeypatch.setattr("deploy.io.init.ask", lambda target: answers)
    result = enginehouse("init", "ubuntu@gpu-1", "--model", "rehearsal/llama-1b", "--model", "rehearsal/minilm")
    assert result.exit_code == 0, result.output
    assert "enginehouse pin inventories/gpu_1.py, and enginehouse plan inventories/gpu_1.py" in result.stdout
    text = Path("inventories/gpu_1.py").read_text()
    assert 'llama_1b = LLM("rehearsal/llama-1b")\nminilm = Embedder("rehearsal/minilm")' in text


def test_init_writes_no_inventory_for_a_model_that_is_not_there(hub: Standing) -> None:
    """The refusal comes before any connection."""
    refused = enginehouse("init", "ubuntu@gpu-1", "--model", "rehearsal/none")
    assert (refused.exit_code, "no such repository" in refused.stderr) == (1, True)
    assert not Path("inventories").exists()


def test_pyinfra_s_own_command_plans_by_the_same_lock(hub: Standing) -> None:
    """config.py loads the file first; the inventory that deploy.py gets is another object without a file name."""
    from pyinfra.api.state import State
    from pyinfra.context import ctx_state
    from pyinfra_cli.inventory import make_inventory

    file = inventory(hub, 'LLM("rehearsal/llama-1b")')
    enginehouse("pin", file, "--models")
    confirm_loads(file)
    with ctx_state.use(State()):
        loaded = make_inventory(file, override_data={}, cwd=str(Path.cwd()))
    assert planned_by_verbs(loaded, next(iter(loaded))).digest == planned(file)["digest"]
