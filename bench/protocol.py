"""How long messages take to build, write and read, beside kio: `python bench/protocol.py`.

Prints microseconds per operation, the best of several rounds, for Produce version 9 with 1, 12 and 100 partitions of one topic,
and for a Fetch response of version 12; then what the first use of a message costs (import, generation of the codec).
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from timeit import Timer
from typing import Any

from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.messages.produce import ProduceRequest

PAYLOAD = bytes(1000)
Topic = ProduceRequest.TopicProduceData
Partition = ProduceRequest.PartitionProduceData
ROUNDS = 7


def microseconds(action: Callable[[], object]) -> float:
    timer = Timer(action)
    number, _ = timer.autorange()
    number = max(1, number // 4)
    return min(timer.repeat(ROUNDS, number)) / number * 1e6


def build(partitions: int) -> ProduceRequest:
    parts = [Partition(index=index, records=PAYLOAD) for index in range(partitions)]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[Topic(name="flights", partition_data=parts)])


def build_kio(partitions: int) -> Any:
    from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
    from kio.schema.types import TopicName
    from kio.static.primitive import i16, i32, i32Timedelta

    parts = tuple([PartitionProduceData(index=i32(index), records=PAYLOAD) for index in range(partitions)])
    topic = TopicProduceData(name=TopicName("flights"), partition_data=parts)
    return ProduceRequest(
        transactional_id=None, acks=i16(-1), timeout=i32Timedelta.parse(__import__("datetime").timedelta(seconds=30)), topic_data=(topic,)
    )


def fetch_response(partitions: int) -> FetchResponse:
    parts = [
        FetchResponse.PartitionData(partition_index=index, high_watermark=10, last_stable_offset=10, records=PAYLOAD)
        for index in range(partitions)
    ]
    return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="flights", partitions=parts)])


def main() -> None:
    from kio.schema.produce.v9.request import ProduceRequest as KioProduce
    from kio.serial import entity_reader, entity_writer

    write_kio, read_kio = entity_writer(KioProduce), entity_reader(KioProduce)
    print(f"{'message':28}{'build':>10}{'write':>10}{'read':>10}   kio: {'build':>8}{'write':>10}{'read':>10}   (us)")
    for partitions in (1, 12, 100):
        ours = build(partitions)
        encoded = ours.encode(9)
        theirs = build_kio(partitions)
        buffer = io.BytesIO()
        write_kio(buffer, theirs)
        assert buffer.getvalue() == encoded

        def writing_kio(theirs: Any = theirs) -> None:
            write_kio(io.BytesIO(), theirs)

        figures = [
            microseconds(lambda partitions=partitions: build(partitions)),
            microseconds(lambda ours=ours: ours.encode(9)),
            microseconds(lambda encoded=encoded: ProduceRequest.decode(encoded, 9)),
            microseconds(lambda partitions=partitions: build_kio(partitions)),
            microseconds(writing_kio),
            microseconds(lambda encoded=encoded: read_kio(encoded, 0)),
        ]
        print(f"Produce v9, {partitions:3} partitions   " + "".join([f"{figure:10.2f}" for figure in figures]))
    for partitions in (1, 100):
        response = fetch_response(partitions)
        encoded = response.encode(12)
        figures = [
            microseconds(lambda partitions=partitions: fetch_response(partitions)),
            microseconds(lambda response=response: response.encode(12)),
            microseconds(lambda encoded=encoded: FetchResponse.decode(encoded, 12)),
        ]
        print(f"Fetch v12 answer, {partitions:3}       " + "".join([f"{figure:10.2f}" for figure in figures]))
    for title, code in FIRST_USE.items():
        print(f"{title:60}{first_use(code):8.2f} ms")


FIRST_USE = {
    "first use: import schema and API table": "import odradek.protocol.registry",
    "first use: import, build and write one Produce": ("import odradek.protocol.registry as r; c = r.request_class(0); c().encode(9)"),
    "first use: load all request and response classes": (
        "from odradek.protocol.api_keys import ApiKey\nfrom odradek.protocol.registry import request_class, response_class\n"
        "for key in ApiKey: request_class(key); response_class(key)"
    ),
}


def first_use(code: str) -> float:
    program = f"import uuid, struct, typing, enum, time\nt = time.perf_counter()\n{code}\nprint((time.perf_counter() - t) * 1e3)"
    return min(
        [float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout) for _ in range(5)]
    )


if __name__ == "__main__":
    main()
