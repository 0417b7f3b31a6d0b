"""Least values of size flags of the TensorRT-LLM programs; a flag that is not here takes any number.

argparse takes every number. A build with a size below these cannot serve.
"""

_FROM_ONE = """
    --max_batch_size --max_input_len --max_output_len --max_seq_len --max_beam_width --max_num_tokens --opt_num_tokens
    --max_lora_rank --tokens_per_block --workers --tp_size --pp_size --cp_size --gpus_per_node --calib_tp_size
    --calib_pp_size --batch_size --awq_block_size --group_size --calib_max_seq_length --tokenizer_max_seq_length
    --n_embd --n_head --n_layer --n_positions --inter_size --vocab_size --ep_size --cluster_size --auto_parallel
"""
_FROM_ZERO = """
    --max_draft_len --max_prompt_embedding_table_size --max_encoder_input_len --moe_num_experts --moe_top_k
    --num_medusa_heads --num_medusa_layers --embedding_sharding_dim --num_postprocess_workers
"""
LEAST: dict[str, int] = dict.fromkeys(_FROM_ONE.split(), 1) | dict.fromkeys(_FROM_ZERO.split(), 0)


def least(flag: str) -> int | None:
    return LEAST.get(flag)
