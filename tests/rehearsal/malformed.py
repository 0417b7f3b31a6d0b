"""Invalid requests, generated from a seed: five hundred, half over HTTP and half over gRPC.

Each has one kind of error with random details. Tests judge the answer; equal seeds give equal requests in the same
order.
"""

from __future__ import annotations

import http.client
import json
import random
import struct
from collections.abc import Callable, Iterator
from contextlib import closing

import grpc
from tritonclient.grpc import service_pb2

SECONDS = 20
SERVICE = "/inference.GRPCInferenceService"
Answer = tuple[str, str]
"""The kind of request, and the HTTP status or the name of the gRPC code."""
OURS = ("not text", "parameter")
"""Kinds of requests that Triton accepts and this project's models refuse."""


def over_http(endpoint: str, model: str, seed: int, count: int) -> Iterator[Answer]:
    """Sends `count` requests, each over a new connection, and yields the answers' statuses."""
    chance = random.Random(seed)
    for number in range(count):
        kind = list(HTTP)[number % len(HTTP)]
        yield kind, send_http(endpoint, *HTTP[kind](chance, model))


def over_grpc(endpoint: str, model: str, seed: int, count: int) -> Iterator[Answer]:
    """Sends the requests over gRPC and yields the codes."""
    chance = random.Random(seed)
    for number in range(count):
        kind = list(GRPC)[number % len(GRPC)]
        yield kind, send_grpc(endpoint, *GRPC[kind](chance, model))


def send_http(endpoint: str, method: str, path: str, headers: dict[str, str], body: bytes) -> str:
    """Returns the status of one request; "closed" for an ended connection, "silent" after a timeout."""
    with closing(http.client.HTTPConnection(endpoint, timeout=SECONDS)) as connection:
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                connection.putheader(name, value)
            connection.endheaders(body)
            return str(connection.getresponse().status)
        except TimeoutError:
            return "silent"
        except (OSError, http.client.HTTPException):
            return "closed"


def send_grpc(endpoint: str, method: str, message: bytes) -> str:
    """Returns the code of one message."""
    with grpc.insecure_channel(endpoint, options=[("grpc.max_send_message_length", -1)]) as channel:
        call = channel.unary_unary(f"{SERVICE}/{method}", request_serializer=bytes, response_deserializer=bytes)
        try:
            call(message, timeout=SECONDS)
            return "OK"
        except grpc.RpcError as error:
            return str(error.code().name)


def _infer(model: str) -> str:
    return f"/v2/models/{model}/infer"


def _tensor(chance: random.Random, **changes: object) -> dict[str, object]:
    return {"name": "texts", "shape": [1, 1], "datatype": "BYTES", "data": [_text(chance)]} | changes


def _text(chance: random.Random) -> str:
    return "".join(chance.choice("abcdefghij ") for _ in range(chance.randint(1, 40)))


def _noise(chance: random.Random, most: int = 4096) -> bytes:
    return chance.randbytes(chance.randint(1, most))


def _json(chance: random.Random, model: str, **changes: object) -> tuple[str, str, dict[str, str], bytes]:
    return "POST", _infer(model), {}, json.dumps({"inputs": [_tensor(chance, **changes)]}).encode()


def _binary(chance: random.Random, model: str, size: object, body: bytes, header: str = ""):
    """Returns Triton's binary form: JSON, then bytes, and a header with the length of the JSON."""
    description = json.dumps(
        {"inputs": [{"name": "texts", "shape": [1, 1], "datatype": "BYTES",
                     "parameters": {"binary_data_size": size}}]}
    ).encode()  # fmt: skip
    return (
        "POST",
        _infer(model),
        {"Inference-Header-Content-Length": header or str(len(description))},
        description + body,
    )


def _with_parameters(chance: random.Random, model: str, wrong: dict[str, object]):
    body = {"inputs": [_tensor(chance)], "parameters": wrong}
    return "POST", _infer(model), {}, json.dumps(body).encode()


def _raw_strings(chance: random.Random) -> bytes:
    """Returns a BYTES tensor whose first length exceeds its content."""
    return struct.pack("<I", chance.choice([0xFFFFFFFF, 0x7FFFFFFF, 10_000])) + _noise(chance, 64)


WRONG_SHAPES = ([-1, 1], [1, 2], [], [0], [2**62, 2**62], [1, 1, 1], [1, 10_000], [2**31, 1])
WRONG_PARAMETERS: tuple[dict[str, object], ...] = ({"task": "x"}, {"task": 5}, {"dimensions": -1}, {"dimensions": "x"})
WRONG_KINDS = ("FP32", "INT8", "BOOL", "TYPE_STRING", "", "bytes", "FP128")
WRONG_TEXTS = (b"", b"{", b"[]", b"null", b'{"inputs": 5}', b'{"inputs": [5]}', b'{"inputs": []}', b"\xff\xfe{}", b'"')

HTTP: dict[str, Callable[[random.Random, str], tuple[str, str, dict[str, str], bytes]]] = {
    "noise": lambda chance, model: ("POST", _infer(model), {}, _noise(chance)),
    "half a json": lambda chance, model: ("POST", _infer(model), {}, chance.choice(WRONG_TEXTS)),
    "nested": lambda chance, model: ("POST", _infer(model), {}, b"[" * chance.randint(50, 500)),
    "shape": lambda chance, model: _json(chance, model, shape=chance.choice(WRONG_SHAPES)),
    "datatype": lambda chance, model: _json(chance, model, datatype=chance.choice(WRONG_KINDS)),
    "name": lambda chance, model: _json(chance, model, name=_text(chance)),
    "data": lambda chance, model: _json(chance, model, data=chance.choice([[1], [[]], {}, None, [None], [[["x"]]]])),
    "binary length": lambda chance, model: _binary(chance, model, chance.choice([-1, 2**40, "x", 7]), _noise(chance)),
    "binary content": lambda chance, model: _binary(chance, model, 68, _raw_strings(chance).ljust(68, b"x")[:68]),
    "header length": lambda chance, model: _binary(chance, model, 8, _noise(chance), chance.choice(["-1", "x", "1e9"])),
    "encoding": lambda chance, model: ("POST", _infer(model), {"Content-Encoding": chance.choice(["gzip", "deflate"])},
                                       _noise(chance)),
    "model": lambda chance, model: ("POST", _infer(_text(chance).replace(" ", "%20")), {}, b"{}"),
    "version": lambda chance, model: ("POST", f"/v2/models/{model}/versions/{chance.choice(['x', '-1', '99'])}/infer",
                                      {}, b"{}"),
    "method": lambda chance, model: (chance.choice(["PUT", "DELETE", "PATCH"]), _infer(model), {}, b""),
    "path": lambda chance, model: ("GET", "/" + "/".join(_text(chance).split()) + "/../" * chance.randint(0, 9), {},
                                   b""),
    "long path": lambda chance, model: ("GET", "/v2/" + "x" * chance.randint(9_000, 60_000), {}, b""),
    "long header": lambda chance, model: ("POST", _infer(model), {"X-Long": "x" * chance.randint(9_000, 200_000)},
                                          b"{}"),
    "generate": lambda chance, model: ("POST", f"/v2/models/{model}/generate", {}, chance.choice(WRONG_TEXTS)),
    "not text": lambda chance, model: _binary(chance, model, 8, struct.pack("<I", 4) + b"\xff\xfe\xfd\xfc"),
    "parameter": lambda chance, model: _with_parameters(chance, model, chance.choice(WRONG_PARAMETERS)),
    "large": lambda chance, model: ("POST", _infer(model), {}, b" " * chance.randint(2**20, 2**21)),
}  # fmt: skip


def _message(chance: random.Random, model: str, **changes: object) -> service_pb2.ModelInferRequest:
    fields = {"name": "texts", "datatype": "BYTES", "shape": [1, 1]} | changes
    tensor = service_pb2.ModelInferRequest.InferInputTensor(**fields)
    return service_pb2.ModelInferRequest(model_name=model, inputs=[tensor])


def _with_raw(message: service_pb2.ModelInferRequest, *raw: bytes) -> tuple[str, bytes]:
    message.raw_input_contents.extend(raw)
    return "ModelInfer", message.SerializeToString()


def _right_raw(chance: random.Random) -> bytes:
    text = _text(chance).encode()
    return struct.pack("<I", len(text)) + text


def _both(chance: random.Random, model: str) -> tuple[str, bytes]:
    message = _message(chance, model)
    message.inputs[0].contents.bytes_contents.append(b"x")
    return _with_raw(message, _right_raw(chance))


def _typed(chance: random.Random, model: str) -> tuple[str, bytes]:
    message = _message(chance, model, datatype=chance.choice(["FP32", "INT64"]))
    message.inputs[0].contents.fp32_contents.extend(chance.random() for _ in range(chance.randint(0, 20)))
    return "ModelInfer", message.SerializeToString()


def _asked_for(chance: random.Random, model: str) -> tuple[str, bytes]:
    message = _message(chance, model)
    message.outputs.add(name=_text(chance))
    return _with_raw(message, _right_raw(chance))


GRPC: dict[str, Callable[[random.Random, str], tuple[str, bytes]]] = {
    "noise": lambda chance, model: ("ModelInfer", _noise(chance)),
    "method": lambda chance, model: (_text(chance).replace(" ", ""), _noise(chance)),
    "empty": lambda chance, model: ("ModelInfer", b""),
    "no content": lambda chance, model: ("ModelInfer", _message(chance, model).SerializeToString()),
    "too many contents": lambda chance, model: _with_raw(_message(chance, model), *[_right_raw(chance)] * 3),
    "both contents": _both,
    "typed content": _typed,
    "shape": lambda chance, model: _with_raw(_message(chance, model, shape=chance.choice(WRONG_SHAPES[:4])),
                                             _right_raw(chance)),
    "huge shape": lambda chance, model: _with_raw(_message(chance, model, shape=[2**62, 4]), _right_raw(chance)),
    "datatype": lambda chance, model: _with_raw(_message(chance, model, datatype=chance.choice(WRONG_KINDS)),
                                                _right_raw(chance)),
    "name": lambda chance, model: _with_raw(_message(chance, model, name=_text(chance)), _right_raw(chance)),
    "content": lambda chance, model: _with_raw(_message(chance, model), _raw_strings(chance)),
    "output": _asked_for,
    "model": lambda chance, model: _with_raw(_message(chance, _text(chance)), _right_raw(chance)),
    "stream": lambda chance, model: ("ModelStreamInfer", _noise(chance)),
    "not text": lambda chance, model: _with_raw(
        _message(chance, model), struct.pack("<I", 4) + b"\xff\xfe\xfd\xfc"
    ),
    "large": lambda chance, model: _with_raw(_message(chance, model), bytes(chance.randint(2**20, 2**22))),
}  # fmt: skip
