"""Both models behind the real Triton 2.51, called over HTTP and gRPC like clients do: `pytest -m rehearsal`."""

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tritonclient.utils import InferenceServerException

from encoders.embedding import Embedder
from encoders.reranking import Reranker
from tests.encoders import real_triton
from tests.encoders.fake_triton import strings

pytestmark = pytest.mark.rehearsal

LIMITS = {
    "max_batch_size": 32,
    "max_queue_delay_microseconds": 100_000,
    "max_queue_size": 64,
    "default_timeout_microseconds": 0,
}
Infer = Callable[..., dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, nomic: Path, xlmr: Path) -> Iterator[real_triton.Server]:
    """Yields a server with a small NomicBert embedder and a small XLM-RoBERTa reranker."""
    work = tmp_path_factory.mktemp("server")
    shared = {"device": "cpu", "dtype": "fp32", "max_items": "64"}
    repository = work / "repository"
    embed = shared | {"model_path": str(nomic)}
    short = LIMITS | {"max_batch_size": 1, "max_queue_delay_microseconds": 0, "max_queue_size": 2}
    narrow = embed | {"max_batch_tokens": "512"}
    real_triton.add_model(repository, "embedder", "short", dimensions=64, parameters=narrow, **short)
    real_triton.add_model(repository, "embedder", "embed", dimensions=64, parameters=embed, **LIMITS)
    rank = shared | {"model_path": str(xlmr)}
    real_triton.add_model(repository, "reranker", "rank", parameters=rank, **LIMITS)
    with real_triton.serving(repository, work) as running:
        yield running


@pytest.fixture(params=["http", "grpc"])
def infer(server: real_triton.Server, request: pytest.FixtureRequest) -> Iterator[Infer]:
    """Yields an inference by each protocol."""
    module = {"http": over_http, "grpc": over_grpc}[request.param]
    client = module.InferenceServerClient(getattr(server, request.param))

    def call(model: str, options: dict[str, Any] | None = None, **rows: list[list[str | bytes]]) -> dict[str, Any]:
        inputs = []
        for name, values in rows.items():
            array = strings(values)
            inputs.append(module.InferInput(name, array.shape, "BYTES"))
            inputs[-1].set_data_from_numpy(array)
        result = client.infer(model, inputs, parameters=options)
        first = "embeddings" if model == "embed" else "scores"
        return {name: result.as_numpy(name) for name in (first, "token_counts")}

    yield call
    client.close()


def wanted_vectors(embedder: Embedder, texts: list[str]) -> np.ndarray:
    job = embedder.read([[texts]], (1, len(texts)), None)
    embedder.work([job])
    return embedder.answer(job)["embeddings"][0]


def wanted_scores(reranker: Reranker, query: str, passages: list[str]) -> np.ndarray:
    job = reranker.read([[[query]], [passages]], (1, len(passages)), None)
    reranker.work([job])
    return reranker.answer(job)["scores"][0]


def refused(infer: Infer, model: str, options: dict[str, Any] | None = None, **rows: Any) -> str:
    with pytest.raises(InferenceServerException) as caught:
        infer(model, options, **rows)
    assert caught.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    return str(caught.value.message())


@pytest.mark.parametrize("shape", [(1, 1), (1, 33), (3, 5), (1, 0), (2, 0)])
def test_embeddings_have_the_shape_of_the_texts(infer: Infer, shape: tuple[int, int]) -> None:
    rows = [[f"cat {i} {j}" for j in range(shape[1])] for i in range(shape[0])]
    got = infer("embed", texts=rows)
    assert got["embeddings"].shape == (*shape, 64)
    assert got["token_counts"].shape == shape


@pytest.mark.parametrize("shape", [(1, 1), (1, 33), (3, 5), (1, 0)])
def test_scores_have_the_shape_of_the_passages(infer: Infer, shape: tuple[int, int]) -> None:
    rows = [[f"cat {i} {j}" for j in range(shape[1])] for i in range(shape[0])]
    got = infer("rank", query=[["cat"]] * shape[0], passages=rows)
    assert got["scores"].shape == got["token_counts"].shape == shape


def test_vectors_are_those_computed_without_a_server(infer: Infer, embedder: Embedder, corpus: list[str]) -> None:
    got = infer("embed", texts=[corpus[:6], corpus[6:]])["embeddings"]
    np.testing.assert_allclose(got.reshape(12, 64), wanted_vectors(embedder, corpus), atol=1e-5)


def test_texts_with_a_shared_prefix_are_distinguished(infer: Infer, embedder: Embedder) -> None:
    """With a wrong numpy the stub returns bytes that all equal the first."""
    texts = ["the cat sat on the " + end for end in ("mat", "sea", "map", "")]
    got = infer("embed", texts=[texts])["embeddings"][0]
    np.testing.assert_allclose(got, wanted_vectors(embedder, texts), atol=1e-5)
    assert (got @ got.T)[np.triu_indices(4, 1)].max() < 0.9999


def test_scores_are_those_computed_without_a_server(infer: Infer, reranker: Reranker, corpus: list[str]) -> None:
    got = infer("rank", query=[["river bank"]], passages=[corpus])["scores"][0]
    np.testing.assert_allclose(got, wanted_scores(reranker, "river bank", corpus), atol=1e-4)


def test_options_travel_as_request_parameters(infer: Infer) -> None:
    options = {"dimensions": 16, "task": "search_query", "normalize": False, "truncate": False}
    got = infer("embed", options, texts=[["the cat"]])["embeddings"]
    assert got.shape == (1, 1, 16)
    assert abs(float(np.linalg.norm(got)) - 1.0) > 0.01


def test_scores_can_be_asked_for_between_0_and_1(infer: Infer) -> None:
    raw = infer("rank", query=[["cat"]], passages=[["dog", "sea"]])["scores"]
    got = infer("rank", {"raw_scores": False}, query=[["cat"]], passages=[["dog", "sea"]])["scores"]
    np.testing.assert_allclose(got, 1 / (1 + np.exp(-raw)), atol=1e-6)


def test_mistakes_are_refused_with_the_clients_status_and_a_reason(infer: Infer) -> None:
    assert "unknown option `dimension`" in refused(infer, "embed", {"dimension": 3}, texts=[["cat"]])
    assert "texts[0][1] is not UTF-8 at byte 0" in refused(infer, "embed", texts=[["cat", b"\xff\xfe"]])
    assert "65 items in one request; at most 64" in refused(infer, "embed", texts=[["cat"] * 65])
    assert "query[0] is empty" in refused(infer, "rank", query=[[""]], passages=[["cat"]])
    long = ["river " * 600]
    assert "has 613 tokens of at most 512" in refused(infer, "embed", {"truncate": False}, texts=[long])


def test_emoji_cjk_and_long_texts_are_served(infer: Infer) -> None:
    got = infer("embed", texts=[["😀😀", "猫と漢字", "", "river " * 600]])
    assert np.isfinite(got["embeddings"]).all()
    assert got["token_counts"][0, 3] == 512


def test_plain_json_without_a_client_library_is_enough(server: real_triton.Server) -> None:
    tensor = {"name": "texts", "datatype": "BYTES", "shape": [1, 2], "data": ["the cat", "paris"]}
    body = json.dumps({"inputs": [tensor], "parameters": {"dimensions": 4}}).encode()
    with urllib.request.urlopen(f"http://{server.http}/v2/models/embed/infer", body, timeout=300) as reply:
        outputs = {output["name"]: output for output in json.load(reply)["outputs"]}
    assert outputs["embeddings"]["shape"] == [1, 2, 4]
    assert len(outputs["embeddings"]["data"]) == 8


def counts(server: real_triton.Server, model: str) -> tuple[int, int]:
    """Returns the server's counts of answered requests and of executions."""
    with over_http.InferenceServerClient(server.http) as client:
        (stats,) = client.get_inference_statistics(model)["model_stats"]
    return stats["inference_count"], stats["execution_count"]


def test_requests_of_different_sizes_merge_and_a_bad_one_harms_none(
    server: real_triton.Server, embedder: Embedder, corpus: list[str]
) -> None:
    before = counts(server, "embed")
    client = over_grpc.InferenceServerClient(server.grpc)  # unlike the HTTP client it may be shared by threads

    def ask(n: int) -> np.ndarray | str:
        array = strings([corpus[:n] if n % 4 else [*corpus[:n], b"\xff"]])
        tensor = over_grpc.InferInput("texts", array.shape, "BYTES").set_data_from_numpy(array)
        try:
            return client.infer("embed", [tensor]).as_numpy("embeddings")[0]
        except InferenceServerException as error:
            return str(error)

    with ThreadPoolExecutor(12) as pool:
        answers = dict(zip(range(1, 13), pool.map(ask, range(1, 13)), strict=True))
    client.close()
    wanted = wanted_vectors(embedder, corpus)
    for n, answer in answers.items():
        if n % 4:
            np.testing.assert_allclose(answer, wanted[:n], atol=1e-5)
        else:
            assert f"texts[0][{n}] is not UTF-8" in str(answer)
    after = counts(server, "embed")
    assert after[0] - before[0] == 12
    assert after[1] - before[1] < 12


def test_requests_beyond_a_full_queue_get_a_retry_error_and_the_others_answers(
    server: real_triton.Server, embedder: Embedder
) -> None:
    """Two always find room in Triton's own queue; up to four more if the model takes some of them in time."""
    text = "river bank " * 30
    array = strings([[text] * 64])
    client = over_grpc.InferenceServerClient(server.grpc)

    def ask(_: int) -> np.ndarray | str:
        tensor = over_grpc.InferInput("texts", array.shape, "BYTES").set_data_from_numpy(array)
        try:
            return client.infer("short", [tensor]).as_numpy("embeddings")[0]
        except InferenceServerException as error:
            return error.status()

    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(ask, range(30)))
    client.close()
    good = [answer for answer in answers if not isinstance(answer, str)]
    turned_away = [answer for answer in answers if isinstance(answer, str)]
    assert len(good) >= 2 and len(turned_away) >= 3
    assert set(turned_away) == {"StatusCode.UNAVAILABLE"}
    wanted = wanted_vectors(embedder, [text])
    for answer in good:
        np.testing.assert_allclose(answer, wanted.repeat(64, 0), atol=1e-5)


def published(server: real_triton.Server, name: str, model: str) -> float:
    """Returns a metric's value from the metrics page; -1 if it is missing."""
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=300) as reply:
        lines = reply.read().decode().splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(f'{name}{{model="{model}"}}')), -1.0)


def test_texts_computed_are_counted_beside_the_servers_own_metrics(server: real_triton.Server, infer: Infer) -> None:
    before = published(server, "enginehouse_encoder_documents_total", "embed")
    infer("embed", texts=[["the cat", "sea", "paris"]])
    for _ in range(50):
        after = published(server, "enginehouse_encoder_documents_total", "embed")
        if after >= before + 3:
            break
        time.sleep(0.1)
    assert after >= before + 3
    assert published(server, "enginehouse_encoder_queued_tokens", "rank") == 0.0


def test_both_models_are_ready_and_report_their_memory(server: real_triton.Server) -> None:
    with over_http.InferenceServerClient(server.http) as client:
        assert client.is_model_ready("embed") and client.is_model_ready("rank")
        outputs = client.get_model_metadata("embed")["outputs"]
    assert outputs == [
        {"name": "embeddings", "datatype": "FP32", "shape": [-1, -1, -1]},
        {"name": "token_counts", "datatype": "INT32", "shape": [-1, -1]},
    ]


def test_a_checkpoint_that_is_refused_says_why_in_the_servers_log(tmp_path: Path) -> None:
    parameters = {"model_path": str(tmp_path / "nowhere"), "device": "cpu"}
    real_triton.add_model(tmp_path / "repository", "embedder", "embed", dimensions=64, parameters=parameters, **LIMITS)
    with pytest.raises(AssertionError) as caught, real_triton.serving(tmp_path / "repository", tmp_path):
        pass
    assert f"CheckpointError: {tmp_path}/nowhere: config.json is missing" in str(caught.value)


def test_no_text_of_a_request_is_in_the_verbose_log(server: real_triton.Server, infer: Infer) -> None:
    infer("embed", texts=[["xylophone quixotic"]])
    refused(infer, "embed", {"truncate": False}, texts=[["xylophone quixotic " * 400]])
    log = server.log.read_text()
    assert "Embedder on cpu in fp32, up to 512 tokens each" in log
    assert "xylophone" not in log
