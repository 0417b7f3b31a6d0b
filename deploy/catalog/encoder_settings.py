"""Settings of encoders' files that files/encoders computes with one value only; a test compares it with each family.

A value that a file leaves out is transformers' default, which is the one here except for `DEFAULTS`.
"""

from collections.abc import Mapping
from typing import Any

_BERT = {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}
_MODERN = {"hidden_activation": "gelu", "attention_bias": False, "mlp_bias": False, "norm_bias": False}
_QWEN = {"hidden_act": "silu", "attention_bias": False, "use_sliding_window": False}

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    **{
        f"{name}{end}": _BERT
        for name in ("Bert", "Roberta", "XLMRoberta", "Camembert")
        for end in ("Model", "ForSequenceClassification")
    },
    "NomicBertModel": {
        "causal": False,
        "prenorm": False,
        "parallel_block": False,
        "rotary_emb_fraction": 1.0,
        "rotary_emb_interleaved": False,
        "rotary_emb_scale_base": None,
        "rotary_scaling_factor": None,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "use_rms_norm": None,
    },
    "ModernBertModel": _MODERN,
    "ModernBertForSequenceClassification": {**_MODERN, "classifier_activation": "gelu", "classifier_bias": False},
    "Qwen3Model": _QWEN,
    "Qwen3ForCausalLM": _QWEN,
    "Gemma3TextModel": {
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
        "attn_logit_softcapping": None,
        "use_bidirectional_attention": True,
    },
    "DebertaV2ForSequenceClassification": {
        "hidden_act": "gelu",
        "pooler_hidden_act": "gelu",
        "relative_attention": True,
        "position_biased_input": False,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "type_vocab_size": 0,
        "conv_kernel_size": 0,
    },
}
DEFAULTS = {"Gemma3TextModel": {"use_bidirectional_attention": False}}
"""Values of transformers for settings that a file leaves out and that differ from the only one here."""
ROTARY = ("ModernBert", "Qwen3", "Gemma3")
"""Beginnings of the architectures whose positions a file may scale."""
STEPS = ("Transformer", "Pooling", "Dense", "Normalize")
POOLINGS = (("mean",), ("cls",), ("last",))
ACTIVATIONS = ("Identity", "Tanh")
CASELESS = ("BertModel", "NomicBertModel")
"""Architectures whose usual tokenizers write small letters themselves, so that `do_lower_case` changes no token."""
