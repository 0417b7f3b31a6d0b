"""Load on gateways before small servers, each process on cores of its own, beside LiteLLM."""
