"""Tensors of the image's `inflight_batcher_llm` models as tables; `contract.py` reads them for one TensorRT-LLM.

A row: name, type, dimensions, then `optional`, `ragged`, `scalar` (reaches the model without its dimension of 1),
`bls-scalar` (for the BLS model only), and `since=` or `before=` a TensorRT-LLM.

Names change with the release: `min_length` and `random_seed` became `min_tokens` and `seed`, cache statistics became
performance metrics, guided decoding and lookahead are new in 0.19. Left out everywhere: encoder-decoder, images and
disaggregation, which are not served here.

Source: triton-inference-server/tensorrtllm_backend at v0.18.2 and v0.19.0, NVIDIA/TensorRT-LLM triton_backend at
0c8de69a1c (1.0 and later); read 2026-11-21. 0.20 and 0.21 were not read: they get the names of the versions before and
after.
"""

ENGINE_INPUTS = """
    input_ids                           INT32  -1     optional ragged
    input_lengths                       INT32  1      scalar
    request_output_len                  INT32  1      scalar
    num_return_sequences                INT32  1      optional scalar
    draft_input_ids                     INT32  -1     optional ragged
    decoder_input_ids                   INT32  -1     optional ragged
    decoder_input_lengths               INT32  1      optional scalar
    draft_logits                        FP32   -1,-1  optional ragged
    draft_acceptance_threshold          FP32   1      optional scalar
    end_id                              INT32  1      optional scalar
    pad_id                              INT32  1      optional scalar
    stop_words_list                     INT32  2,-1   optional ragged
    bad_words_list                      INT32  2,-1   optional ragged
    embedding_bias                      FP32   -1     optional ragged
    beam_width                          INT32  1      optional scalar
    temperature                         FP32   1      optional scalar
    runtime_top_k                       INT32  1      optional scalar
    runtime_top_p                       FP32   1      optional scalar
    runtime_top_p_min                   FP32   1      optional scalar
    runtime_top_p_decay                 FP32   1      optional scalar
    runtime_top_p_reset_ids             INT32  1      optional scalar
    len_penalty                         FP32   1      optional scalar
    early_stopping                      BOOL   1      optional scalar
    repetition_penalty                  FP32   1      optional scalar
    min_length                          INT32  1      optional scalar  before=1.0
    min_tokens                          INT32  1      optional scalar  since=0.20
    beam_search_diversity_rate          FP32   1      optional scalar
    presence_penalty                    FP32   1      optional scalar
    frequency_penalty                   FP32   1      optional scalar
    random_seed                         UINT64 1      optional scalar  before=1.0
    seed                                UINT64 1      optional scalar  since=0.20
    return_log_probs                    BOOL   1      optional scalar
    return_context_logits               BOOL   1      optional scalar
    return_generation_logits            BOOL   1      optional scalar
    return_kv_cache_reuse_stats         BOOL   1      optional scalar  before=0.19
    return_perf_metrics                 BOOL   1      optional scalar  since=0.19
    return_num_input_tokens             BOOL   1      optional scalar  since=0.20
    return_num_output_tokens            BOOL   1      optional scalar  since=0.20
    exclude_input_in_output             BOOL   1      optional scalar
    stop                                BOOL   1      optional scalar
    streaming                           BOOL   1      optional scalar
    prompt_embedding_table              FP16   -1,-1  optional ragged
    prompt_table_extra_ids              UINT64 -1     optional ragged
    prompt_vocab_size                   INT32  1      optional scalar
    lora_task_id                        UINT64 1      optional scalar
    lora_weights                        FP16   -1,-1  optional ragged
    lora_config                         INT32  -1,3   optional ragged
    retention_token_range_starts        INT32  -1     optional ragged
    retention_token_range_ends          INT32  -1     optional ragged
    retention_token_range_priorities    INT32  -1     optional ragged
    retention_token_range_durations_ms  INT32  -1     optional ragged
    retention_decode_priority           INT32  1      optional ragged
    retention_decode_duration_ms        INT32  1      optional ragged
    guided_decoding_guide_type          STRING 1      optional ragged  since=0.19
    guided_decoding_guide               STRING 1      optional ragged  since=0.19
    lookahead_window_size               INT32  1      optional ragged  since=0.19
    lookahead_ngram_size                INT32  1      optional ragged  since=0.19
    lookahead_verification_set_size     INT32  1      optional ragged  since=0.19
"""

MEASURES = """
    cum_log_probs                FP32  -1
    output_log_probs             FP32  -1,-1
    context_logits               FP32  -1,-1
    generation_logits            FP32  -1,-1,-1
    batch_index                  INT32 1
    sequence_index               INT32 1
    kv_cache_alloc_new_blocks    INT32 1
    kv_cache_reused_blocks       INT32 1
    kv_cache_alloc_total_blocks  INT32 1
    arrival_time_ns              INT64 1  since=0.19
    first_scheduled_time_ns      INT64 1  since=0.19
    first_token_time_ns          INT64 1  since=0.19
    last_token_time_ns           INT64 1  since=0.19
    acceptance_rate              FP32  1  since=0.19
    total_accepted_draft_tokens  INT32 1  since=0.19
    total_draft_tokens           INT32 1  since=0.19
    num_input_tokens             INT32 1  since=0.20
    num_output_tokens            INT32 1  since=0.20
"""

ENGINE_OUTPUTS = f"""
    output_ids       INT32  -1,-1
    sequence_length  INT32  -1
    {MEASURES}
"""

PUBLIC_INPUTS = """
    text_input                   STRING 1
    decoder_text_input           STRING 1      optional
    max_tokens                   INT32  1
    bad_words                    STRING -1     optional
    stop_words                   STRING -1     optional
    exclude_input_in_output      BOOL   1      optional
    end_id                       INT32  1      optional
    pad_id                       INT32  1      optional
    top_k                        INT32  1      optional
    top_p                        FP32   1      optional
    temperature                  FP32   1      optional
    length_penalty               FP32   1      optional
    repetition_penalty           FP32   1      optional
    min_length                   INT32  1      optional  before=1.0
    min_tokens                   INT32  1      optional  since=0.20
    presence_penalty             FP32   1      optional
    frequency_penalty            FP32   1      optional
    random_seed                  UINT64 1      optional  before=1.0
    seed                         UINT64 1      optional  since=0.20
    return_log_probs             BOOL   1      optional  bls-scalar
    return_context_logits        BOOL   1      optional  bls-scalar
    return_generation_logits     BOOL   1      optional  bls-scalar
    return_kv_cache_reuse_stats  BOOL   1      optional  bls-scalar  before=0.19
    return_perf_metrics          BOOL   1      optional  bls-scalar  since=0.19
    return_num_input_tokens      BOOL   1      optional  bls-scalar  since=0.20
    return_num_output_tokens     BOOL   1      optional  bls-scalar  since=0.20
    num_return_sequences         INT32  1      optional  bls-scalar
    beam_width                   INT32  1      optional
    stream                       BOOL   1      optional
    prompt_embedding_table       FP16   -1,-1  optional
    prompt_table_extra_id        UINT64 1      optional
    prompt_vocab_size            INT32  1      optional
    embedding_bias_words         STRING -1     optional
    embedding_bias_weights       FP32   -1     optional
    lora_task_id                 UINT64 1      optional  bls-scalar
    lora_weights                 FP16   -1,-1  optional  ragged
    lora_config                  INT32  -1,3   optional  ragged
    guided_decoding_guide_type   STRING 1      optional  since=0.19
    guided_decoding_guide        STRING 1      optional  since=0.19
"""

PUBLIC_OUTPUTS = f"""
    text_output  STRING -1
    {MEASURES}
"""

DRAFTED_INPUTS = """
    num_draft_tokens  INT32 1  optional
    use_draft_logits  BOOL  1  optional bls-scalar
"""

PREPROCESSING_INPUTS = """
    QUERY                   STRING 1
    DECODER_QUERY           STRING 1   optional
    REQUEST_OUTPUT_LEN      INT32  1
    BAD_WORDS_DICT          STRING -1  optional
    STOP_WORDS_DICT         STRING -1  optional
    EMBEDDING_BIAS_WORDS    STRING -1  optional
    EMBEDDING_BIAS_WEIGHTS  FP32   -1  optional
    END_ID                  INT32  1   optional
    PAD_ID                  INT32  1   optional
    PROMPT_TABLE_EXTRA_ID   UINT64 1   optional
"""

# Outputs about images are never filled here, but preprocessing itself and the BLS model request them.
PREPROCESSING_OUTPUTS = """
    INPUT_ID                    INT32  -1
    REQUEST_INPUT_LEN           INT32  1
    DECODER_INPUT_ID            INT32  -1
    REQUEST_DECODER_INPUT_LEN   INT32  1
    BAD_WORDS_IDS               INT32  2,-1
    STOP_WORDS_IDS              INT32  2,-1
    EMBEDDING_BIAS              FP32   -1
    REQUEST_OUTPUT_LEN          INT32  -1
    OUT_END_ID                  INT32  1
    OUT_PAD_ID                  INT32  1
    OUT_PROMPT_TABLE_EXTRA_IDS  UINT64 -1
    PIXEL_VALUES                FP16   -1,-1,-1,-1
    ASPECT_RATIO_IDS            INT64  -1
    ASPECT_RATIO_MASK           INT64  -1,-1
    CROSS_ATTENTION_MASK        INT64  -1,-1,-1
    IMAGE_SIZES                 INT64  2     before=0.19
    IMAGE_SIZES                 INT64  -1,2  since=0.19
    IS_VIDEO_INPUT              BOOL   1
    ATTENTION_MASK              INT64  -1    since=0.19
    IMAGE_GRID_THW              INT64  3     since=0.19
    VISION_INPUT_ID             INT32  -1    since=0.19
"""

POSTPROCESSING_INPUTS = """
    TOKENS_BATCH     INT32  -1,-1
    SEQUENCE_LENGTH  INT32  -1
"""

POSTPROCESSING_OUTPUTS = """
    OUTPUT  STRING -1
"""

# The ensemble's names of tensors that a step names otherwise; tensors between steps have a leading _.
PREPROCESSING_NAMES = {
    "QUERY": "text_input",
    "DECODER_QUERY": "decoder_text_input",
    "REQUEST_OUTPUT_LEN": "max_tokens",
    "BAD_WORDS_DICT": "bad_words",
    "STOP_WORDS_DICT": "stop_words",
}
PASSED_ON = {
    "INPUT_ID": "input_ids",
    "REQUEST_INPUT_LEN": "input_lengths",
    "DECODER_INPUT_ID": "decoder_input_ids",
    "REQUEST_DECODER_INPUT_LEN": "decoder_input_lengths",
    "REQUEST_OUTPUT_LEN": "request_output_len",
    "STOP_WORDS_IDS": "stop_words_list",
    "BAD_WORDS_IDS": "bad_words_list",
    "EMBEDDING_BIAS": "embedding_bias",
    "OUT_END_ID": "end_id",
    "OUT_PAD_ID": "pad_id",
    "OUT_PROMPT_TABLE_EXTRA_IDS": "prompt_table_extra_ids",
}
ENGINE_NAMES = {
    "runtime_top_k": "top_k",
    "runtime_top_p": "top_p",
    "len_penalty": "length_penalty",
    "streaming": "stream",
}
