"""Embedders and rerankers of the catalog; `checkpoints.py` has the form of a row and its sources."""

from deploy.catalog.checkpoint_rows import KnownCheckpoint, shape
from deploy.spec.sources import Checkpoint

SEARCH = ("search_query", "search_document")
E5_PREFIXES = dict(zip(SEARCH, ("query: ", "passage: "), strict=True))
ARCTIC_PREFIXES = dict(zip(SEARCH, ("query: ", ""), strict=True))
BGE_PREFIXES = dict(zip(SEARCH, ("Represent this sentence for searching relevant passages: ", ""), strict=True))
"""Prefixes of families, from the model cards of multilingual-e5-large, snowflake-arctic-embed-l-v2.0 and
bge-base-en-v1.5."""

_XLMR_LARGE = shape(559_890_432, 24, 1024, 16, 16, 64, 4096, 250_002, 514)
_XLMR_LONG = _XLMR_LARGE | {"parameters": 567_754_752, "positions": 8194}
_BERT_BASE = shape(109_482_240, 12, 768, 12, 12, 64, 3072, 30_522, 512)
_BERT_SMALL = shape(22_713_216, 6, 384, 12, 12, 32, 1536, 30_522, 512)

_QWEN3_SMALL = Checkpoint(
    architecture="Qwen3ForCausalLM", **shape(595_776_512, 28, 1024, 16, 8, 128, 3072, 151_669, 32_768)
)

ENCODERS = (
    KnownCheckpoint(
        name="bge-reranker-large",
        repository="BAAI/bge-reranker-large",
        revision="55611d7bca2a7133960a6d3b71e083071bbfc312",
        published_bytes=4 * 559_891_457,
        max_tokens=512,
        shape=Checkpoint(
            architecture="XLMRobertaForSequenceClassification", **_XLMR_LARGE | {"parameters": 559_891_457}
        ),
    ),
    KnownCheckpoint(
        name="nomic-embed-text-v2-moe",
        repository="nomic-ai/nomic-embed-text-v2-moe",
        revision="1066b6599d099fbb93dfcb64f9c37a7c9e503e85",
        published_bytes=4 * 475_292_928,
        dimensions=768,
        least_dimensions=256,
        max_tokens=512,
        shape=Checkpoint(
            architecture="NomicBertModel",
            experts=8,
            active_experts=2,
            **_BERT_BASE | {"parameters": 475_292_928, "vocabulary": 250_048, "positions": 2048},
        ),
    ),
    KnownCheckpoint(
        name="all-minilm-l6-v2",
        repository="sentence-transformers/all-MiniLM-L6-v2",
        revision="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
        published_bytes=4 * 22_713_216,
        dimensions=384,
        least_dimensions=384,
        max_tokens=512,
        shape=Checkpoint(architecture="BertModel", **_BERT_SMALL),
    ),
    KnownCheckpoint(
        name="bge-m3",
        repository="BAAI/bge-m3",
        revision="5617a9f61b028005a4858fdac845db406aefb181",
        published_bytes=4 * 567_754_752,  # pytorch_model.bin alone, 2.27 GB; hosts rewrite it as safetensors
        dimensions=1024,
        least_dimensions=1024,
        max_tokens=8192,
        shape=Checkpoint(architecture="XLMRobertaModel", **_XLMR_LONG),
    ),
    KnownCheckpoint(
        name="multilingual-e5-large",
        repository="intfloat/multilingual-e5-large",
        revision="3d7cfbdacd47fdda877c5cd8a79fbcc4f2a574f3",
        published_bytes=4 * 559_890_432,
        dimensions=1024,
        least_dimensions=1024,
        max_tokens=512,
        prefixes=E5_PREFIXES,
        shape=Checkpoint(architecture="XLMRobertaModel", **_XLMR_LARGE),
    ),
    KnownCheckpoint(
        name="arctic-embed-l-v2",
        repository="Snowflake/snowflake-arctic-embed-l-v2.0",
        revision="edc2df7b6c25794b340229ca082e7c78782e6374",
        published_bytes=4 * 567_754_752,
        dimensions=1024,
        least_dimensions=256,
        max_tokens=8192,
        prefixes=ARCTIC_PREFIXES,
        shape=Checkpoint(architecture="XLMRobertaModel", **_XLMR_LONG),
    ),
    KnownCheckpoint(
        name="bge-base-en",
        repository="BAAI/bge-base-en-v1.5",
        revision="a5beb1e3e68b9ab74eb54cfd186867f64f240e1a",
        published_bytes=4 * 109_482_240,
        dimensions=768,
        least_dimensions=768,
        max_tokens=512,
        prefixes=BGE_PREFIXES,
        shape=Checkpoint(architecture="BertModel", **_BERT_BASE),
    ),
    KnownCheckpoint(
        name="labse",
        repository="sentence-transformers/LaBSE",
        revision="836121a0533e5664b21c7aacc5d22951f2b8b25b",
        published_bytes=4 * (470_926_848 + 590_592),  # including the Dense step
        dimensions=768,
        least_dimensions=768,
        max_tokens=256,
        shape=Checkpoint(architecture="BertModel", **_BERT_BASE | {"parameters": 470_926_848, "vocabulary": 501_153}),
    ),
    KnownCheckpoint(
        name="bge-reranker-v2-m3",
        repository="BAAI/bge-reranker-v2-m3",
        revision="953dc6f6f85a1b2dbfca4c34a2796e7dde08d41e",
        published_bytes=4 * 567_755_777,
        max_tokens=8192,
        shape=Checkpoint(
            architecture="XLMRobertaForSequenceClassification", **_XLMR_LONG | {"parameters": 567_755_777}
        ),
    ),
    KnownCheckpoint(
        name="ms-marco-minilm-l6-v2",
        repository="cross-encoder/ms-marco-MiniLM-L6-v2",
        revision="c5ee24cb16019beea0893ab7796b1df96625c6b8",
        published_bytes=4 * 22_713_601,
        max_tokens=512,
        shape=Checkpoint(architecture="BertForSequenceClassification", **_BERT_SMALL | {"parameters": 22_713_601}),
    ),
    KnownCheckpoint(
        name="nomic-embed-text-v1.5",
        repository="nomic-ai/nomic-embed-text-v1.5",
        revision="e9b6763023c676ca8431644204f50c2b100d9aab",
        published_bytes=4 * 136_731_648,
        dimensions=768,
        least_dimensions=64,
        max_tokens=2048,
        shape=Checkpoint(
            architecture="NomicBertModel",
            **_BERT_BASE | {"parameters": 136_731_648, "vocabulary": 30_528, "positions": 2048},
        ),
    ),
    KnownCheckpoint(
        name="gte-modernbert-base",
        repository="Alibaba-NLP/gte-modernbert-base",
        revision="e7f32e3c00f91d699e8c43b53106206bcc72bb22",
        published_bytes=2 * 149_014_272,
        dimensions=768,
        max_tokens=8192,
        shape=Checkpoint(
            architecture="ModernBertModel",
            **_BERT_BASE
            | {"parameters": 149_014_272, "layers": 22, "intermediate": 1152, "vocabulary": 50_368, "positions": 8192},
        ),
    ),
    KnownCheckpoint(
        name="qwen3-embedding-0.6b",
        kind="embedder",
        repository="Qwen/Qwen3-Embedding-0.6B",
        revision="97b0c614be4d77ee51c0cef4e5f07c00f9eb65b3",
        published_bytes=2 * 595_776_512,
        dimensions=1024,
        least_dimensions=32,
        max_tokens=32_768,
        shape=_QWEN3_SMALL,
    ),
    KnownCheckpoint(
        name="qwen3-reranker-0.6b",
        kind="reranker",
        repository="Qwen/Qwen3-Reranker-0.6B",
        revision="e61197ed45024b0ed8a2d74b80b4d909f1255473",
        published_bytes=2 * 595_776_512,
        max_tokens=32_768,
        shape=_QWEN3_SMALL,
    ),
)
