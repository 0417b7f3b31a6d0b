"""A question to a served model and the answer, as both are shown."""

from dataclasses import dataclass

from deploy.io.gateway_key import GivenKey
from deploy.models.answers import Answer
from deploy.models.questions import BEARER, Command, Question, authority
from deploy.slices.gateway import GatewaySlice
from deploy.slices.host import ModelSlice, ServerSlice


@dataclass(frozen=True)
class Request:
    """A question with its model, server and host, and the command that sends it.

    With a `gateway` the question goes to the gateway, and the server is one behind the gateway.
    """

    host: str
    server: ServerSlice
    model: ModelSlice
    question: Question
    command: Command
    ssh: tuple[str, ...]
    gateway: GatewaySlice | None = None
    key: GivenKey | None = None

    @property
    def fed(self) -> str:
        return self.command.stdin + (
            BEARER.replace("\\n", "\n") % self.key.text if self.command.key and self.key else ""
        )

    @property
    def asked_by_name(self) -> str:
        return "gateway" if self.gateway else f"server {self.server.name}"

    @property
    def address(self) -> str:
        """The listening address, as `address:port`."""
        if self.gateway:
            return authority(self.gateway.address, self.gateway.ports[0])
        return authority(self.server.address, self.server.http_port)

    @property
    def unit(self) -> str:
        return "enginehouse-gateway@0" if self.gateway else f"triton@{self.server.name}"


@dataclass(frozen=True)
class Exchange:
    """A request and the answer to it."""

    request: Request
    answer: Answer
    seconds: float

    def __str__(self) -> str:
        """The target, the line to paste, and the answer; other lines begin with `#`."""
        model = self.request.model
        answer_lines = [f"# {line}".rstrip() for line in self.answer.text.splitlines()]
        title = f"# {self.request.host}, {self.request.asked_by_name}: {model.name} ({model.kind})"
        return "\n".join([title, self.request.command.line, *answer_lines])

    def to_json(self) -> dict[str, object]:
        """The exchange as plain values, for programs."""
        request = self.request
        return {
            "host": request.host,
            "server": request.server.name,
            "gateway": request.gateway is not None,
            "model": request.model.name,
            "kind": request.model.kind,
            "line": request.command.line,
            "path": request.question.path,
            "body": request.question.body,
            "answer": self.answer.values,
            "seconds": round(self.seconds, 3),
        }
