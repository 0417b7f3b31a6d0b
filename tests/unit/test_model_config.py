"""The linter of configurations compared with tritonclient, which has Triton's own schema."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from deploy.catalog.model_config import DATA_TYPES, FIELDS, KINDS
from deploy.linter import check
from deploy.linter.pbtxt import read, write
from tests.unit.pasted import GPT_OSS_CONFIG, LLAMA_CONFIG, RERANKER_CONFIG


@pytest.mark.parametrize("message", sorted(FIELDS))
def test_fields_are_those_of_tritonclient(message: str) -> None:
    """The two sets of fields are equal."""
    descriptor = getattr(model_config_pb2, message).DESCRIPTOR
    assert sorted(FIELDS[message]) == sorted(field.name for field in descriptor.fields)


def test_words_are_those_of_tritonclient() -> None:
    """Data types (without the invalid one) and kinds are compared."""
    assert set(DATA_TYPES) == set(model_config_pb2.DataType.keys()) - {"TYPE_INVALID"}
    assert set(KINDS) == set(model_config_pb2.ModelInstanceGroup.Kind.keys())


@pytest.mark.parametrize("text", [LLAMA_CONFIG, RERANKER_CONFIG], ids=["llama", "reranker"])
def test_a_config_written_again_means_the_same_to_triton(text: str) -> None:
    """Protobuf itself parses the written config."""
    before, after = model_config_pb2.ModelConfig(), model_config_pb2.ModelConfig()
    text_format.Parse(text, before)
    text_format.Parse(write(read(text)), after)
    assert before == after


def test_the_right_configuration_is_one_triton_reads() -> None:
    """Triton cannot read the guide's configuration, which has a placeholder in the place of a number."""
    llama = GPT_OSS_CONFIG.replace("gpt_oss_20b", "llama")
    right = check(llama).checked[0].right_text
    config = text_format.Parse(right, model_config_pb2.ModelConfig())
    assert (config.max_batch_size, config.instance_group[0].kind) == (32, model_config_pb2.ModelInstanceGroup.KIND_CPU)
    assert {"gpt_model_type", "gpt_model_path", "tokenizer_dir"} <= set(config.parameters)
