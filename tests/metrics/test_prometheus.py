"""What Prometheus is shown, and under which names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.metrics.beans import render_beans
from odradek.metrics.catalogue import CATALOGUE
from odradek.metrics.document import document
from odradek.metrics.histogram import Histogram
from odradek.metrics.names import Kind, Metric
from odradek.metrics.prometheus import LINES_PER_CHUNK, exposed, render, series_names
from odradek.metrics.registry import Registry, Series

DASHBOARD = """
sum(kafka_server_replicamanager_leadercount{cluster="c"})
sum(kafka_controller_kafkacontroller_activecontrollercount{cluster="c"})
sum(rate(kafka_controller_controllerstats_uncleanleaderelections_total{cluster="c"}[5m]))
sum(kafka_server_replicamanager_partitioncount)
sum(kafka_server_replicamanager_underreplicatedpartitions)
sum(kafka_cluster_partition_atminisr)
sum(kafka_cluster_partition_underminisr)
sum(kafka_controller_kafkacontroller_offlinepartitionscount)
sum(irate(kafka_server_brokertopicmetrics_bytesin_total{topic=~".+"}[5m])) by (topic)
sum(irate(kafka_server_brokertopicmetrics_bytesout_total{topic=~".+"}[5m])) by (topic)
sum(irate(kafka_server_brokertopicmetrics_messagesin_total{topic=~".+"}[5m])) by (topic)
sum(irate(kafka_server_brokertopicmetrics_totalproducerequests_total{topic=~".+"}[5m]))
sum(irate(kafka_server_brokertopicmetrics_failedproducerequests_total{topic=~".+"}[5m]))
sum(irate(kafka_server_brokertopicmetrics_totalfetchrequests_total{topic=~".+"}[5m]))
sum(irate(kafka_server_brokertopicmetrics_failedfetchrequests_total{topic=~".+"}[5m]))
sum(kafka_network_socketserver_networkprocessoravgidlepercent*100) by (pod)
sum(kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent*100) by (pod)
sum(kafka_server_socket_server_metrics_connection_count) by (listener)
sum(rate(kafka_server_socket_server_metrics_connection_creation_total[5m])) by (listener)
sum(kafka_log_log_size{topic="t",partition="0"})
kafka_log_log_logstartoffset{topic="t",partition="0"}
kafka_log_log_logendoffset{topic="t",partition="0"}
kafka_log_log_numlogsegments{topic="t",partition="0"}
sum(rate(kafka_server_replicamanager_isrshrinks_total[5m]))
sum(rate(kafka_server_replicamanager_isrexpands_total[5m]))
sum(kafka_server_replicamanager_offlinereplicacount)
sum(kafka_server_replicamanager_underminisrpartitioncount)
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"}
kafka_network_requestmetrics_requestqueuetimems{request="FetchConsumer",quantile="0.50"}
kafka_network_requestmetrics_localtimems{request="FetchFollower",quantile="0.999"}
kafka_network_requestmetrics_remotetimems{request="Produce",quantile="0.95"}
kafka_network_requestmetrics_responsequeuetimems{request="Produce",quantile="0.75"}
kafka_network_requestmetrics_responsesendtimems{request="Produce",quantile="0.98"}
sum(rate(kafka_network_requestmetrics_requests_total{request="Produce",version="13"}[1m])) by (request)
sum(rate(kafka_network_requestmetrics_errors_total{error!="NONE"}[1m])) by (error)
kafka_network_requestmetrics_totaltimems_count{request="Produce"}
kafka_network_requestchannel_requestqueuesize
kafka_network_requestchannel_responsequeuesize
kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Produce"}
kafka_log_logflushstats_logflushrateandtimems{quantile="0.99"}
rate(kafka_log_logflushstats_logflushrateandtimems_count[5m])
kafka_server_replicafetchermanager_maxlag{clientId="Replica"}
kafka_server_fetcherlagmetrics_consumerlag{clientId="ReplicaFetcherThread-0-1",topic="t",partition="0"}
kafka_coordinator_group_groupmetadatamanager_numgroups
kafka_coordinator_group_groupmetadatamanager_numgroupsstable
kafka_server_raft_metrics_current_state_info{state="leader"}
kafka_server_raft_metrics_current_leader
kafka_server_raft_metrics_current_epoch
kafka_server_raft_metrics_high_watermark
kafka_server_raft_metrics_log_end_offset
kafka_server_broker_metadata_metrics_last_applied_record_offset
kafka_server_broker_metadata_metrics_metadata_load_error_count
kafka_controller_kafkacontroller_globaltopiccount
kafka_controller_kafkacontroller_globalpartitioncount
kafka_controller_kafkacontroller_preferredreplicaimbalancecount
kafka_controller_kafkacontroller_fencedbrokercount
kafka_controller_kafkacontroller_activebrokercount
kafka_server_kafkaserver_brokerstate
kafka_log_logmanager_offlinelogdirectorycount
""".strip().splitlines()
"""Queries of the panels of published dashboards (Strimzi's Kafka and KRaft, and what Confluent's ask for under these rules)."""

_NAME = re.compile(r"\bkafka_[a-z0-9_]+")
_SELECTOR = re.compile(r"\bkafka_[a-z0-9_]+\{([^}]*)\}")


def names() -> dict[str, Metric]:
    return {name: metric for metric in CATALOGUE for name, _ in series_names(metric)}


@pytest.mark.parametrize("query", DASHBOARD)
def test_what_a_dashboard_asks_for_is_there(query: str) -> None:
    known = names()
    for name in _NAME.findall(query):
        assert name in known
    for selector in _SELECTOR.findall(query):
        metric = known[_NAME.findall(query)[0]]
        labels = {part.split("=")[0].split("!")[0] for part in selector.split(",")} - {"cluster", "quantile", "state"}
        assert labels <= set(metric.tags)
        assert ("quantile" in selector) <= (metric.kind in (Kind.HISTOGRAM, Kind.TIMER))


def test_every_metric_has_a_name_of_its_own() -> None:
    found = [name for metric in CATALOGUE for name, _ in series_names(metric)]
    begun = [name for name, before in zip(found, ["", *found], strict=False) if name != before]
    assert len(set(begun)) == len(begun), "but for neighbours"
    for metric in CATALOGUE:
        assert series_names(metric) or metric.kind is Kind.TEXT or metric.type == "ForwardingManager", metric.key


def test_the_page_is_that_of_the_catalogue() -> None:
    page = Path(__file__).parents[2] / "docs" / "operations.md"
    assert document(page.read_text(encoding="utf-8")) == page.read_text(encoding="utf-8"), (
        "python -m odradek.metrics.document docs/operations.md"
    )


def test_what_the_page_advises_to_watch_is_there() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    advised = page.partition("### What to watch\n")[2].partition("### All metrics")[0]
    named = set(re.findall(r"`((?:kafka|odradek)_\w+)`", advised))
    assert len(named) == 10
    assert named <= {name for metric in CATALOGUE for name, _ in series_names(metric)}


def test_the_page_has_each_metric_once() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    tables = page.partition("<!-- metrics begins -->")[2].partition("<!-- metrics ends -->")[0]
    headings = re.findall("^#### (.*)", tables, re.MULTILINE)
    assert len(headings) == len(set(headings)) == len({(metric.domain, metric.type) for metric in CATALOGUE})
    assert len(re.findall("^[|] `", tables, re.MULTILINE)) == len(CATALOGUE)


def metric(name: str, kind: Kind = Kind.GAUGE, tags: tuple[str, ...] = (), *, attribute: bool = False) -> Metric:
    return Metric("kafka.server", "Type", name, kind, "What it is.", tags, attribute=attribute)


def text(*told: tuple[Metric, list[Series | None]]) -> str:
    registry = Registry([each for each, _ in told])
    for each, series in told:
        registry.add(each.key, lambda series=series: series)  # type: ignore[misc]
    return "".join(render(registry))


def test_a_gauge_with_tags() -> None:
    size = metric("Size", tags=("topic", "partition"))
    assert text((size, [(("topic", "partition"), ("a", "0"), 5), None, (("topic", "partition"), ("b", "1"), 6.5)])) == (
        "# HELP kafka_server_type_size What it is. (kafka.server:type=Type,name=Size)\n"
        "# TYPE kafka_server_type_size gauge\n"
        'kafka_server_type_size{topic="a",partition="0"} 5\n'
        'kafka_server_type_size{topic="b",partition="1"} 6.5\n'
    )


def test_values_of_labels_are_escaped() -> None:
    odd = 'quo"te\\back\nline%s\x000\x00'
    gauge = metric("Size", tags=("topic", "partition"))
    lines = text((gauge, [(gauge.tags, (odd, "0"), 1), (gauge.tags, (odd, "1"), 2)])).splitlines()
    assert len(lines) == 4
    assert lines[2].startswith('kafka_server_type_size{topic="quo\\"te\\\\back\\nline%s')
    assert lines[3].startswith('kafka_server_type_size{topic="quo\\"te\\\\back\\nline%s')


def test_a_meter_and_its_sum() -> None:
    meter = metric("BytesInPerSec", Kind.METER, ("topic",))
    assert text((meter, [((), (), 9), (("topic",), ("a",), 9)])).splitlines()[1:] == [
        "# TYPE kafka_server_type_bytesin_total counter",
        "kafka_server_type_bytesin_total 9",
        'kafka_server_type_bytesin_total{topic="a"} 9',
    ]


def test_a_histogram_stands_together() -> None:
    histogram = Histogram()
    histogram.record(4.0, 0.0)
    timed = metric("TimeMs", Kind.HISTOGRAM, ("request",))
    lines = text((timed, [(("request",), (each,), histogram.read(0.0)) for each in ("A", "B")])).splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert samples[:3] == [
        'kafka_server_type_timems_count{request="A"} 1',
        'kafka_server_type_timems_count{request="B"} 1',
        'kafka_server_type_timems{request="A",quantile="0.50"} 4.0',
    ]
    assert samples[-1] == 'kafka_server_type_timems{request="B",quantile="0.999"} 4.0'
    assert [line for line in lines if line.startswith("# TYPE")] == [
        "# TYPE kafka_server_type_timems_count counter",
        "# TYPE kafka_server_type_timems gauge",
    ]


def test_a_word_is_a_label() -> None:
    state = Metric("kafka.server", "raft-metrics", "current-state", Kind.TEXT, "x", attribute=True)
    assert text((state, [((), (), "leader")])).endswith('kafka_server_raft_metrics_current_state_info{state="leader"} 1\n')


def test_many_series_come_in_pieces() -> None:
    gauge = metric("Size", tags=("topic", "partition"))
    registry = Registry([gauge])
    registry.add(gauge.key, lambda: [(gauge.tags, ("t", str(number)), number) for number in range(5000)])
    pieces = list(render(registry))
    assert max(piece.count("\n") for piece in pieces) <= LINES_PER_CHUNK + 2
    assert "".join(pieces).count("\n") == 5002


def test_numbers_that_are_none() -> None:
    gauge = metric("Size", tags=("topic",))
    values = (float("inf"), float("-inf"), float("nan"), 1e300, -0.5, True)
    lines = text((gauge, [(gauge.tags, (str(number),), value) for number, value in enumerate(values)])).splitlines()[2:]
    assert [line.split(" ")[1] for line in lines] == ["+Inf", "-Inf", "NaN", "1e+300", "-0.5", "1"]


def test_labels_of_other_names_than_the_tags_are_written_for_each_series() -> None:
    """Quotas: the label of client-id is clientId, and another one says what the quota is of."""
    quota = Metric("kafka.server", "Produce", "byte-rate", Kind.GAUGE, "x", ("user", "client-id"), attribute=True)
    series: list[Series | None] = [(quota.tags, (user, "app"), 1) for user in ("alice", "bob")]
    assert text((quota, series)).splitlines()[2:] == [
        f'kafka_server_quota_byte_rate{{resource="Produce",user="{user}",clientId="app"}} 1' for user in ("alice", "bob")
    ]


def test_series_with_different_tags_of_equal_values_are_told_apart() -> None:
    topics, listeners = metric("Size", tags=("topic",)), metric("Count", tags=("listener",))
    series: list[list[Series | None]] = [[(each.tags, (value,), 1) for value in ("a", "b")] for each in (topics, listeners)]
    lines = text((topics, series[0]), (listeners, series[1]), (metric("Other", tags=("topic",)), series[0])).splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        *(f'kafka_server_type_size{{topic="{value}"}} 1' for value in "ab"),
        *(f'kafka_server_type_count{{listener="{value}"}} 1' for value in "ab"),
        *(f'kafka_server_type_other{{topic="{value}"}} 1' for value in "ab"),
    ]
    assert [line for line in lines if line.startswith("# TYPE")] == [
        f"# TYPE kafka_server_type_{name} gauge" for name in ("size", "count", "other")
    ]


def test_many_distributions_come_in_pieces_with_one_head() -> None:
    timed = metric("TimeMs", Kind.HISTOGRAM, ("request",))
    registry = Registry([timed])
    histogram = Histogram()
    histogram.record(4.0, 0.0)
    count = LINES_PER_CHUNK + 7
    registry.add(timed.key, lambda: [(timed.tags, (str(number),), histogram.read(0.0)) for number in range(count)])
    pieces = list(render(registry))
    assert max(piece.count("\n") for piece in pieces) <= LINES_PER_CHUNK + 2
    lines = "".join(pieces).splitlines()
    assert len([line for line in lines if line.startswith("# TYPE")]) == 2
    assert len([line for line in lines if line.startswith("kafka_server_type_timems_count{")]) == count


def test_quotas_and_what_has_no_rule() -> None:
    quota = Metric("kafka.server", "Produce", "byte-rate", Kind.GAUGE, "x", ("user", "client-id"), attribute=True)
    shown = exposed(quota, ("user", "client-id"), "byte-rate")
    assert shown is not None
    assert (shown.name, [label for label, _ in shown.labels]) == ("kafka_server_quota_byte_rate", ["resource", "user", "clientId"])
    assert exposed(Metric("java.lang", "Memory", "Heap", Kind.GAUGE, "x"), (), "Value") is None


def test_neighbours_of_one_name_have_one_head() -> None:
    rates = [Metric("kafka.server", type_, "byte-rate", Kind.GAUGE, "x", ("user",), attribute=True) for type_ in ("Produce", "Fetch")]
    lines = text(*[(rate, [(("user",), ("alice",), 1)]) for rate in rates]).splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        'kafka_server_quota_byte_rate{resource="Produce",user="alice"} 1',
        'kafka_server_quota_byte_rate{resource="Fetch",user="alice"} 1',
    ]
    assert len(lines) == 4


def test_a_metric_that_cannot_be_read_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    broken_now = True

    def fails() -> Iterator[Series]:
        if broken_now:
            yield (), (), 1
            raise ValueError("not now")
        yield (), (), 3

    broken, whole = metric("Broken"), metric("Whole")
    registry = Registry([broken, whole])
    registry.add(broken.key, fails)
    registry.add(whole.key, lambda: [((), (), 2)])
    for _ in range(2):
        assert "kafka_server_type_whole 2" in "".join(render(registry))
    assert caplog.text.count("cannot be computed") == 1
    broken_now = False
    assert "kafka_server_type_broken 3" in "".join(render(registry))
    with pytest.raises(KeyError):
        registry.add("kafka.server:type=Type,name=Unknown", fails)


def test_rates_are_kept_for_series_that_are_there() -> None:
    meter = metric("BytesInPerSec", Kind.METER, ("topic",))
    series: list[Series | None] = [(("topic",), ("a",), 0), None, (("topic",), ("b",), 0)]
    registry = Registry([meter])
    registry.add(meter.key, lambda: series)
    list(registry.update(0.0))
    series[:] = [(("topic",), ("b",), 50)]
    list(registry.update(5.0))
    assert registry.rates(meter, ("topic",), ("a",)) is None
    found = registry.rates(meter, ("topic",), ("b",))
    assert found is not None
    assert found.averages[0] == 10.0


def test_mbeans_as_json() -> None:
    leader = Metric("kafka.server", "raft-metrics", "current-leader", Kind.GAUGE, "x", attribute=True)
    epoch = Metric("kafka.server", "raft-metrics", "current-epoch", Kind.GAUGE, "x", attribute=True)
    meter = metric("BytesInPerSec", Kind.METER, ("topic",))
    timed = metric("TimeMs", Kind.TIMER)
    histogram = Histogram()
    histogram.record(4.0, 0.0)
    state = Metric("kafka.server", "broker-metadata-metrics", "last-applied-record-offset", Kind.GAUGE, "x", attribute=True)
    registry = Registry([meter, leader, epoch, timed, state])
    registry.add(state.key, lambda: [((), (), 11)])
    registry.add(leader.key, lambda: [((), (), 1)])
    registry.add(epoch.key, lambda: [((), (), 7)])
    registry.add(meter.key, lambda: [((), (), 3), (("topic",), ("a",), 3)])
    registry.add(timed.key, lambda: [((), (), histogram.read(0.0))])
    beans = json.loads("".join(render_beans(registry, 0.0)))
    assert beans["kafka.server:type=broker-metadata-metrics"] == {"last-applied-record-offset": 11}
    assert beans["kafka.server:type=raft-metrics"] == {"current-leader": 1, "current-epoch": 7}
    assert beans["kafka.server:type=Type,name=BytesInPerSec,topic=a"]["Count"] == 3
    assert beans["kafka.server:type=Type,name=TimeMs"]["99thPercentile"] == 4.0
    assert beans["kafka.server:type=Type,name=TimeMs"]["OneMinuteRate"] == 0.0


def test_mbeans_without_others_before_them_are_json() -> None:
    gauges = [
        Metric("kafka.server", type_, "current-epoch", Kind.GAUGE, "x", attribute=True) for type_ in ("raft-metrics", "other", "third")
    ]
    for count in range(4):
        registry = Registry(gauges)
        for each in gauges[:count]:
            registry.add(each.key, lambda: [((), (), 1)])
        assert len(json.loads("".join(render_beans(registry, 0.0)))) == count
