"""The gateway: translates requests of OpenAI, Anthropic, Cohere, Jina and TEI to gRPC for Triton, and the answers back.

Runs on hosts as `python -m gateway serve SETTINGS` in a separate virtual environment (Python 3.10 to 3.13; packages:
requirements-gateway.lock). It stores no configuration: models, servers and limits come from the settings that the plan
renders, keys from a file of hashes. The path of a request:

    app ─▶ keys ─▶ json_body, fields ─▶ chat | completions | embeddings | rerank ─▶ fleet ─▶ triton ─▶ back
    route    who      what is asked       ids and tensors               which server   gRPC

    settings, reading    the map of models and servers, and its file, which is reread when it changes
    exchange             one HTTP request: a bounded body, an answer or a stream of events, a client that disconnects
    load                 a tenant's share of a process: bytes of bodies, turns at large work
    worker, lanes        processes with little memory and time, and the queue for them
    bodies               bodies to values, within bounds that are checked first
    templates, prompts   messages to text by the weights' own template, to ids; no user's text forges a control token
    tokens               the tokenizer; long texts are tokenised in the processes of `prompt_worker`
    published            the files of the weights beside the tensors, as far as prompts need them
    renderer, harmless   that template in a separate process with little memory and time; in this one if it is harmless
    fleet, ready         the servers of a model: readiness, load, and requests that wait for a server
    routing              the server of a prompt: the one with most of its beginning cached, within a bound of load
    keys, budgets        access; requests and tokens a minute of each key, in an account that processes share
    usage                requests, tokens and cost by day, key and model, in a file that outlives processes and reboots
    traces               the choice of requests that Triton traces
    dialects             other chats as OpenAI's: responses, anthropic, cohere read and write each vendor's own
    audit, metrics       a line for each request, and Prometheus' counters; neither ever has text of a request

Endpoints: chat, completions, responses, anthropic, cohere, embeddings, rerank, tei, tokenize, models, page; each
documents its fields and refusals.

Rules that every endpoint keeps:

- Work that grows with a client's input takes at most a few milliseconds of the event loop.
- A field that would change an answer's meaning and is not supported is refused by its name. Other unknown fields are
  ignored, and the answer's header names them.
- Errors have OpenAI's shape, `{"error": {"message", "type", "param", "code"}}`; TEI's and
  Anthropic's endpoints have their own.
- Request ids, trace ids and `Host` of clients are not used. A query string that may have a key is refused.
- A client that disconnects cancels its work on the GPU. A request is retried on another server only before its first
  byte.

Only `server` imports uvicorn; all other modules are plain ASGI and run in tests without it.
"""
