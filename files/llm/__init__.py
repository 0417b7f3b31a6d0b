"""The models that serve an LLM inside Triton. A release has these modules as the package `llm`, in the directory of its
model.py.

The table in deploy/models/llm_contract.py lists their input and output tensors.
"""
