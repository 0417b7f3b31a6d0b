"""Field names of Triton's model configuration, message by message.

Source: model_config.proto as compiled into tritonclient; a test compares these tables with it. Fields of other messages
are not judged.
"""

_TENSOR = "name data_type dims reshape is_shape_tensor is_non_linear_format_io"

FIELDS: dict[str, tuple[str, ...]] = {
    "ModelConfig": (
        *("name", "platform", "backend", "runtime", "version_policy", "max_batch_size", "input", "output"),
        *("batch_input", "batch_output", "optimization", "dynamic_batching", "sequence_batching"),
        *("ensemble_scheduling", "instance_group", "default_model_filename", "cc_model_filenames", "metric_tags"),
        *("parameters", "model_warmup", "model_operations", "model_transaction_policy", "model_repository_agents"),
        *("response_cache", "model_metrics"),
    ),
    "ModelInput": (*_TENSOR.split(), "format", "allow_ragged_batch", "optional"),
    "ModelOutput": (*_TENSOR.split(), "label_filename"),
    "ModelInstanceGroup": (
        *("name", "kind", "count", "rate_limiter", "gpus", "secondary_devices", "profile", "passive", "host_policy"),
    ),
    "ModelDynamicBatching": (
        *("preferred_batch_size", "max_queue_delay_microseconds", "preserve_ordering", "priority_levels"),
        *("default_priority_level", "default_queue_policy", "priority_queue_policy"),
    ),
    "ModelTransactionPolicy": ("decoupled",),
}
MESSAGES = {
    "input": "ModelInput",
    "output": "ModelOutput",
    "instance_group": "ModelInstanceGroup",
    "dynamic_batching": "ModelDynamicBatching",
    "model_transaction_policy": "ModelTransactionPolicy",
}
"""Fields of the model configuration that are messages judged field by field."""

DATA_TYPES = (
    *("TYPE_BOOL", "TYPE_UINT8", "TYPE_UINT16", "TYPE_UINT32", "TYPE_UINT64", "TYPE_INT8", "TYPE_INT16"),
    *("TYPE_INT32", "TYPE_INT64", "TYPE_FP16", "TYPE_FP32", "TYPE_FP64", "TYPE_STRING", "TYPE_BF16"),
)
KINDS = ("KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL")
