"""Sentence embedder and passage reranker for Triton's Python backend.

A release has a copy of this folder as `encoders/` in the version directory of every embedder and reranker, which the
Python backend puts on `sys.path`; `model.py` in that directory is the file of `models/` for its kind. Everything else
in this package runs without Triton. Imports torch, numpy, tokenizers and safetensors, and on a GPU the Triton language.
Never imports transformers: its own `nomic_bert` silently builds a different network from the same config.

The path of a request (only pipeline.py has threads; everything else is pure except for the device):

    serving ─▶ embedding | reranking ─▶ tokens ─▶ batching ─▶ packing ─▶ device, graphs ─▶ network ─▶ back
    bytes      options, prefixes         ids       passes      one row     launch           bert | nomic | gated

A short request on an idle device takes the same path in the calling thread, which also answers it. If the tokeniser
splits at spaces, the token ids of known words come from a table (words.py).

Sequences are packed without padding, across requests, up to a token budget per pass. Each step of the networks has an
implementation in plain torch (plain, linear, routing, attention). Steps that gain from it also have one in the Triton
language (fused, product_kernels, expert_kernels, expert_tiles, attention_kernels). At start, `choices` takes the
implementation that runs on this device and agrees with the plain one, and logs the choice.

Families, chosen from `architectures` in config.json; each network's module registers its own (family.py):

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

`token_counts` are the tokens that the network read, after truncation: prefix and special tokens included, for the
reranker those of the pair. N = 0 and P = 0 give empty tensors of the same rank.

Options travel as request parameters, because optional tensors would keep the batcher from merging requests
(`options.py` has types and defaults): task, normalize, dimensions, truncate for the embedder; raw_scores, truncate for
the reranker. An unknown option is refused by name.

An error ends only its own request. INVALID_ARG: the client can correct the request. CANCELLED: the client has
disconnected and the request waited for a quarter of a second. UNAVAILABLE: memory ran out even for one sequence, a
thread died, or Triton's own queue (max_queue_size) is full. INTERNAL: anything else. No message and no log line
contains text of a request.

Metrics beside Triton's own, label `model`: enginehouse_encoder_{answers,documents,tokens,passes,pass_seconds}_total,
enginehouse_encoder_{queued_tokens,pass_fill,peak_memory_bytes} (metrics.py says what each is).
"""
