"""A small LLM's tokenizer and template in the published form: bytes and a few merges, ChatML with a BOS."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

TEXTS = [
    "the cat sat on the mat",
    "you are a helpful assistant",
    "user and system and assistant say hello, hello world",
]
SPECIAL = ["<|bos|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = """{{ bos_token }}{% for message in messages %}
{% if message.role == 'assistant' and '</think>' in message.content %}
{% set content = message.content.split('</think>')[-1] | trim %}
{% else %}
{% set content = message.content %}
{% endif %}
<|im_start|>{{ message.role }}{% if message.name %} {{ message.name }}{% endif %}

{{ content }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}
{% endif %}
"""


def tokenizer() -> Tokenizer:
    """Returns a byte-level BPE tokenizer whose post-processor puts a BOS before every text, like Llama's."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False))
    made.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    made.add_tokens([AddedToken(text, normalized=False) for text in ("<think>", "</think>", "<table>", "    ")])
    bos = made.token_to_id("<|bos|>")
    made.post_processor = processors.TemplateProcessing(single="<|bos|> $A", special_tokens=[("<|bos|>", bos)])
    made.enable_truncation(20)  # as published files do; a server must not inherit it
    return made


def written(folder: Path, template: str = TEMPLATE) -> Path:
    """Writes the files that an LLM's weights are published with."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save(str(folder / "tokenizer.json"))
    config = {
        "bos_token": "<|bos|>",
        "eos_token": {"__type": "AddedToken", "content": "<|im_end|>"},
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(template)
    sampled = {
        "do_sample": True,
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.95,
        "repetition_penalty": 1.05,
        "eos_token_id": 1,
    }
    (folder / "generation_config.json").write_text(json.dumps(sampled))
    return folder
