"""Several servers: the least loaded is chosen, failures are retried, and requests wait for an unready server."""

import asyncio
import json
from pathlib import Path

import grpc

from gateway.ready import says_ready
from tests.gateway.asking import CHAT, KEY, OTHER_KEY, Answer, becomes, chat, in_loop, key_line, running_gateway
from tests.gateway.triton import HELLO, Script, serving

EMBED = {"model": "nomic", "input": "a"}
DOWN = (grpc.StatusCode.UNAVAILABLE, "connection refused")


@in_loop
async def test_a_request_goes_to_the_least_loaded_server(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, tritons=2) as front:
        for triton in front.tritons:
            triton.script = Script(halts_after=0)
        talks = [front.opened(CHAT, chat(stream=True)) for _ in range(4)]
        running = [asyncio.ensure_future(talk.run()) for talk in talks]
        await becomes(lambda: sum(triton.running for triton in front.tritons) == 4)
        assert [triton.running for triton in front.tritons] == [2, 2]
        for talk in talks:
            talk.left.set()
        await asyncio.gather(*running)


@in_loop
async def test_a_failure_before_the_first_byte_is_retried_on_another_server(tmp_path: Path) -> None:
    for path, body in ((CHAT, chat()), (CHAT, chat(stream=True)), ("/v1/embeddings", EMBED)):
        async with running_gateway(tmp_path, tritons=2) as front:
            front.tritons[0].script = Script(error=DOWN)
            answer = await front.ask(path, body)
            assert (answer.status, [len(triton.requests) for triton in front.tritons]) == (200, [1, 1])


@in_loop
async def test_a_full_queue_sends_the_request_on_and_the_server_stays_ready(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, tritons=2) as front:
        front.tritons[0].script = Script(error=(grpc.StatusCode.UNAVAILABLE, "Exceeds maximum queue size: 8"))
        assert (await front.chat()).status == 200
        assert all(server.is_ready for server in front.gateway.fleet.servers.values())


@in_loop
async def test_a_failure_after_the_first_byte_is_not_retried(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, tritons=2) as front:
        for triton in front.tritons:
            triton.script = Script(error=DOWN, error_after=1)
        answer = await front.chat(stream=True)
        assert [len(triton.requests) for triton in front.tritons] == [1, 0]
    assert answer.events[-1]["error"]["code"] == "unavailable"


@in_loop
async def test_a_mistake_of_the_client_is_not_tried_twice(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, tritons=2) as front:
        for triton in front.tritons:
            triton.script = Script(error=(grpc.StatusCode.INVALID_ARGUMENT, "no"))
        assert (await front.chat()).status == 400
        assert [len(triton.requests) for triton in front.tritons] == [1, 0]


@in_loop
async def test_a_request_waits_for_the_only_server_and_is_answered(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.is_ready = False
        await front.gateway.fleet.look()
        talk = front.opened(CHAT, chat(stream=True))
        running = asyncio.ensure_future(talk.run())
        await becomes(lambda: len(front.gateway.fleet._held) == 1)
        front.triton.is_ready = True
        answer = await running
    assert (answer.status, answer.events[-1]) == (200, "[DONE]")


@in_loop
async def test_a_waiting_request_is_refused_after_the_hold_time(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, hold_seconds=0) as front:
        front.triton.is_ready = False
        await front.gateway.fleet.look()
        answer = await front.chat()
        assert front.triton.requests == []
    assert (answer.status, answer.headers["retry-after"], answer.error["code"]) == (503, "5", "unavailable")


@in_loop
async def test_the_number_of_waiting_requests_is_limited(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, limits={"held": 1}) as front:
        front.triton.is_ready = False
        await front.gateway.fleet.look()
        talk = front.opened(CHAT, chat())
        running = asyncio.ensure_future(talk.run())
        await becomes(lambda: len(front.gateway.fleet._held) == 1)
        assert (await front.chat()).status == 503
        talk.left.set()
        await running
        assert front.gateway.fleet._held == []


@in_loop
async def test_a_tenant_that_takes_all_places_to_wait_makes_room_for_another(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, limits={"held": 4}) as front:
        fleet, names = front.gateway.fleet, ("acme", "umbrella")
        keys = {"keys": [key_line(key, name) for key, name in zip((KEY, OTHER_KEY), names, strict=True)]}
        front.keys_file.write_text(json.dumps(keys))
        await front.gateway.refresh()
        front.triton.is_ready = False
        await fleet.look()

        async def come(key: str, count: int) -> list[asyncio.Task[Answer]]:
            """Starts this many requests; each waits or is refused before the next one starts."""
            tasks = []
            for _ in range(count):
                tasks.append(asyncio.ensure_future(front.ask(CHAT, chat(), key=key)))
                before = list(fleet._held)
                await becomes(lambda before=before: fleet._held != before or tasks[-1].done())
            return tasks

        first = await come(KEY, 5)
        others = await come(OTHER_KEY, 3)
        again = await come(KEY, 1)
        assert [held.tenant for held in fleet._held] == ["acme", "acme", "umbrella", "umbrella"]
        front.triton.is_ready = True
        await fleet.look()
        statuses = [[(await task).status for task in tasks] for tasks in (first, others, again)]
        assert fleet._held == []
    assert statuses == [[200, 200, 503, 503, 503], [200, 200, 503], [503]]


@in_loop
async def test_a_server_that_is_gone_is_waited_for_until_it_listens_again(tmp_path: Path) -> None:
    """The container was killed without a `drain`."""
    async with running_gateway(tmp_path) as front:
        gateway_settings = json.loads(front.settings_file.read_text())
        async with serving(type(front.triton)()) as restarted:
            port = int(restarted.address.rpartition(":")[2])
        gateway_settings["servers"]["host-0/main"]["grpc"] = f"127.0.0.1:{port}"
        front.settings_file.write_text(json.dumps(gateway_settings))
        await front.gateway.refresh()
        running = asyncio.ensure_future(front.chat())
        await becomes(lambda: len(front.gateway.fleet._held) == 1)
        async with serving(restarted, port):
            restarted.script = Script(HELLO)
            assert (await running).status == 200


@in_loop
async def test_a_server_that_stops_and_has_unloaded_its_models_is_waited_for(tmp_path: Path) -> None:
    """The server keeps listening for a while before it reports itself as not ready."""
    for code in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.CANCELLED):
        async with running_gateway(tmp_path) as front:
            front.triton.script, front.triton.is_ready = Script(error=(code, "unknown model")), False
            running = asyncio.ensure_future(front.chat(stream=True))
            await becomes(lambda front=front: len(front.gateway.fleet._held) == 1)
            front.triton.script, front.triton.is_ready = Script(HELLO), True
            await front.gateway.fleet.look()
            assert (await running).events[-1] == "[DONE]"


@in_loop
async def test_a_ready_server_that_lacks_the_model_is_not_waited_for(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as front:
        front.triton.script = Script(error=(grpc.StatusCode.NOT_FOUND, "unknown model"))
        assert (await front.chat()).status == 503


@in_loop
async def test_requests_for_a_dead_model_go_to_another_server(tmp_path: Path) -> None:
    """Triton stays ready, and refuses the model's requests as INTERNAL, until the watchdog restarts it."""
    dead = Script(error=(grpc.StatusCode.INTERNAL, "Stub process 'llama_completion_0_0' is not healthy."))
    async with running_gateway(tmp_path, tritons=2) as front:
        front.triton.script = dead
        assert [(await front.chat()).status for _ in range(4)] == [200] * 4
        front.tritons[1].script = dead
        refused = await front.chat()
        assert (refused.status, refused.headers["retry-after"]) == (503, "2")


@in_loop
async def test_a_request_to_a_restarted_server_is_retried_despite_its_full_queue(tmp_path: Path) -> None:
    """All waiting requests reach a restarted server at once; at any other time a full queue is refused immediately."""
    full = Script(error=(grpc.StatusCode.UNAVAILABLE, "Exceeds maximum queue size: 8"))
    async with running_gateway(tmp_path) as front:
        front.triton.script = full
        assert (await front.chat()).status == 503
        front.triton.is_ready = False
        await front.gateway.fleet.look()
        running = asyncio.ensure_future(front.chat())
        await becomes(lambda: len(front.gateway.fleet._held) == 1)
        front.triton.is_ready = True
        await front.gateway.fleet.look()
        await becomes(lambda: len(front.triton.requests) == 2)
        front.triton.script = Script(HELLO)
        assert (await running).status == 200


@in_loop
async def test_the_status_of_the_traffic_service_decides_readiness() -> None:
    """200 is ready and 503 is not; a failed request decides nothing."""
    statuses = [b"200 OK", b"503 Service Unavailable", b"404 Not Found", b""]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if status := statuses.pop(0):
            writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/ready/main"
    assert [await says_ready(url) for _ in range(4)] == [True, False, None, None]
    server.close()
    await server.wait_closed()
    assert await says_ready(url) is None
