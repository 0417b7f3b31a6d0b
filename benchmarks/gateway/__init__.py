"""Load on gateways before small servers, each process on separate cores, beside LiteLLM."""
