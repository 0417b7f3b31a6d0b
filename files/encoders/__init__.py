"""Sentence embedder and passage reranker for Triton's Python backend: right first, then fast, and strict.

A release has a copy of this folder as `encoders/` in the version directory of every embedder and reranker, which the
Python backend puts on `sys.path`; `model.py` beside it is that kind's file of `models/`. All else here runs without
Triton. Imports torch, numpy, tokenizers and
safetensors, and the Triton language where there is a GPU; never transformers, whose own `nomic_bert` builds another
network from the same config without an error.

How a request runs (pipeline.py has the threads, everything else is pure but for the device):

    serving ─▶ embedding | reranking ─▶ tokens ─▶ batching ─▶ packing ─▶ device, graphs ─▶ network ─▶ back
    bytes      options, prefixes         ids       passes      one row     launch           bert | nomic | gated

Few words that come while nothing else is under way go the same way in the thread that brings them, and are answered by
the call itself. Words of tokenisers that split at spaces are looked up for them (words).

No sequence is padded: those of all requests lie one after another, under a budget of tokens a pass. Each step of the
networks has a plain form in torch (plain, linear, routing, attention) and where it pays one in the Triton language
(fused, product_kernels, expert_kernels, expert_tiles, attention_kernels); `choices` takes at start what works and
agrees with the plain one, and says so.

Families, chosen from `architectures` in config.json; a module of a network enters its own (family.py):

    embedder   BertModel · RobertaModel, XLMRobertaModel, CamembertModel · NomicBertModel (v1, v1.5, v2 with experts) ·
               ModernBertModel · Qwen3Model, Qwen3ForCausalLM (last token) · Gemma3TextModel (EmbeddingGemma)
    reranker   Bert-, Roberta-, XLMRoberta- and ModernBertForSequenceClassification with one label ·
               Qwen3ForCausalLM (yes or no)

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

Errors reach only the request that earned them: INVALID_ARG for what the client can repair, CANCELLED if the client has
gone and the request waited for a quarter of a second, UNAVAILABLE when
memory ran out even for one sequence, or a thread died, or Triton's own queue (max_queue_size) is full, INTERNAL else.
No message and no log line carries text of a request.

Metrics beside Triton's own, label `model`: enginehouse_encoder_{answers,documents,tokens,passes,pass_seconds}_total,
enginehouse_encoder_{queued_tokens,pass_fill,peak_memory_bytes} (metrics.py says what each is).
"""
