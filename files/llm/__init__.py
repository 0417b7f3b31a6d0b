"""The models that serve an LLM inside Triton. A release has these modules beside its model.py, as the package `llm`.

The tensors that they take and give are the table in deploy/models/llm_contract.py.
"""
