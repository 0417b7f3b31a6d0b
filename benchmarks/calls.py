"""Sends one inference over gRPC or HTTP by NVIDIA's client library, from a prebuilt request.

The time excludes building, which a client in production would do once, and includes sending and reading the answer.
HTTP goes through the library's body format over one kept connection of the standard library, because the library's own
transport is built on gevent, which does not mix with threads.
"""

import http.client
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http

Answer = dict[str, np.ndarray]
TIMEOUT_SECONDS = 120


class Refused(Exception):
    """The server answered with an error; `code` is gRPC's name or HTTP's number, as text."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


def tensors(request: Mapping[str, Any], protocol: str) -> list[Any]:
    """Returns input tensors of one request: `texts`, or `query` and `passages`; each text is a row."""
    library = over_grpc if protocol == "grpc" else over_http
    rows = {"query": [request["query"]], "passages": request["passages"]} if "query" in request else {
        "texts": request["texts"]
    }  # fmt: skip
    made = []
    for name, values in rows.items():
        array = np.array([[v if isinstance(v, bytes) else v.encode() for v in values]], dtype=object)
        made.append(library.InferInput(name, list(array.shape), "BYTES").set_data_from_numpy(array))
    return made


def connect(protocol: str, address: str, model: str) -> Callable[[list[Any], Mapping[str, Any]], Answer]:
    """Returns a function that sends tensors and options over one connection and returns the outputs by name."""
    return _grpc(address, model) if protocol == "grpc" else _http(address, model)


def _grpc(address: str, model: str) -> Callable[[list[Any], Mapping[str, Any]], Answer]:
    # A channel of its own for each caller: channels to one address share a connection unless their options differ.
    channel = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    client = over_grpc.InferenceServerClient(address, channel_args=channel)

    def call(inputs: list[Any], options: Mapping[str, Any]) -> Answer:
        try:
            result = client.infer(model, inputs, parameters=dict(options) or None, client_timeout=TIMEOUT_SECONDS)
        except over_grpc.InferenceServerException as error:
            raise Refused(str(error.status()).removeprefix("StatusCode."), str(error.message())) from None
        return {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}

    return call


def _http(address: str, model: str) -> Callable[[list[Any], Mapping[str, Any]], Answer]:
    host, port = address.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_SECONDS)
    library = over_http.InferenceServerClient

    def call(inputs: list[Any], options: Mapping[str, Any]) -> Answer:
        body, head = library.generate_request_body(inputs, parameters=dict(options) or None)
        headers = {"Inference-Header-Content-Length": str(head)} if head is not None else {}
        connection.request("POST", f"/v2/models/{model}/infer", body=body, headers=headers)
        reply = connection.getresponse()
        content = reply.read()
        if reply.status != 200:
            raise Refused(str(reply.status), content.decode(errors="replace"))
        length = reply.getheader("Inference-Header-Content-Length")
        result = library.parse_response_body(content, header_length=int(length) if length else None)
        return {output["name"]: result.as_numpy(output["name"]) for output in result.get_response()["outputs"]}

    return call
