"""The gateway: OpenAI, Anthropic, Cohere, Jina and TEI requests in, gRPC to Triton, answers out.

Runs on hosts as `python -m gateway serve SETTINGS` in a virtual environment of its own (Python 3.10 to 3.13; packages:
requirements-gateway.lock). It keeps nothing: models, servers and limits come from the settings that the plan renders,
keys from a file of hashes. How a request runs:

    app ─▶ keys ─▶ json_body, fields ─▶ chat | completions | embeddings | rerank ─▶ fleet ─▶ triton ─▶ back
    route    who      what is asked       ids and tensors               which server   gRPC

    settings, reading    the map of models and servers, and the file it is read from again when it changes
    exchange             one HTTP request: body within limits, an answer or a stream of events, a client that leaves
    load                 what a tenant may have of a process at once: bytes of bodies, turns at large work
    worker, lanes        processes with little memory and time, and whose turn they are
    bodies               bodies to values, within bounds that are counted before
    templates, prompts   messages to text by the weights' own template, to ids; no user's text forges a control token
    tokens               the tokenizer; long texts are tokenised in the processes of `prompt_worker`
    published            the files of the weights beside the tensors, as far as prompts need them
    renderer, harmless   that template in a process of its own, with little memory and time; here if it is harmless
    fleet, ready         the servers of a model: which is ready, what each has to do, who waits until one is back
    routing              the server of a prompt: the one that knows most of its beginning, within a bound of load
    keys, budgets        who may ask; requests and tokens a minute of each key, in an account that processes share
    usage                requests, tokens and cost by day, key and model, in a file that outlives processes and reboots
    traces               which requests Triton traces
    dialects             other chats as OpenAI's: responses, anthropic, cohere read and write each vendor's own
    audit, metrics       a line a request, and Prometheus' counters; neither ever has text of a request

Endpoints: chat, completions, responses, anthropic, cohere, embeddings, rerank, tei, tokenize, models, page; what each
takes and refuses stands there.

Rules that every endpoint keeps:

- Nothing whose work grows with what a client sends is done in the event loop's time beyond a few milliseconds.
- A field that would change an answer's meaning and cannot be obeyed is refused by its name. Other unknown fields are
  ignored, and the answer's header names them.
- Errors have OpenAI's shape, `{"error": {"message", "type", "param", "code"}}`; TEI's and
  Anthropic's endpoints have their own.
- Request ids, trace ids and `Host` of clients go nowhere. A query string that may have a key is refused.
- A client that leaves cancels its work on the GPU. A request is tried on another server before its first byte only.

Only `server` imports uvicorn; all else is plain ASGI and runs in tests without it.
"""
