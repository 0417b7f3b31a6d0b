"""Sentence embedder and passage reranker for Triton's Python backend: right first, plain, and strict.

Copied as `encoders/` beside each `model.py` into the model's version directory, which the Python backend puts on
`sys.path`. Everything here but the two `model.py` runs without Triton. Imports torch, numpy, tokenizers and
safetensors; never transformers, whose own `nomic_bert` builds another network from the same config without an error.

Families, chosen from `architectures` in config.json:

    embedder   BertModel · XLMRobertaModel · NomicBertModel (v2, mixture of experts)
    reranker   XLMRobertaForSequenceClassification with one label

Parameters of config.pbtxt (`parameters`, string values): the fields of `settings.Settings`, defaults there.

Request, embedder                                     Request, reranker
    texts         BYTES [B, N]                            query         BYTES [B, 1]
                                                          passages      BYTES [B, P]
    embeddings    FP32  [B, N, D]                         scores        FP32  [B, P]
    token_counts  INT32 [B, N]                            token_counts  INT32 [B, P]

`token_counts` are the tokens the network read: prefix and special tokens included, after truncation; for the
reranker those of the pair. N = 0 and P = 0 are answered with empty tensors of the same rank.

Options travel as request parameters, because optional tensors would keep the batcher from merging requests
(`options.py` has types and defaults): task, normalize, dimensions, truncate for the embedder; raw_scores, truncate for
the reranker. An option that is not known is refused by name.

Errors reach only the request that earned them: INVALID_ARG for what the client can repair, CANCELLED, UNAVAILABLE when
memory ran out even for one sequence, INTERNAL else. No message and no log line carries text of a request.

What it takes on an H100 80GB HBM3 (fp16, random weights of the published sizes, torch 2.11, read 2026-11-21). MiB of
weights, MiB held by the process's allocator (the least a cap in `memory_mib` must allow), and with its CUDA context:

    checkpoint                 max_batch_tokens   weights   held    with context   512-token sequences a second
    nomic-embed-text-v2-moe    16384              943       1,460   2,154          1,081
    nomic-embed-text-v2-moe    65536              943       3,136   3,830          1,243
    bge-reranker-large         16384              1,103     1,606   2,300          1,044
    bge-reranker-large         32768              1,103     2,118   2,812          1,138
"""
