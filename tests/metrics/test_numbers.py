"""Counts, rates and distributions."""

from __future__ import annotations

from math import exp
from random import Random

import pytest

from odradek.metrics.histogram import FOLD_AT, WINDOW_S, Distribution, Histogram, bucket_of, value_of
from odradek.metrics.names import Kind, Metric, quoted
from odradek.metrics.rates import Rates
from odradek.metrics.requests import Measured, Reading, Requests
from odradek.metrics.traffic import SUMS, Traffic


def test_a_rate_follows_yammers_ticks() -> None:
    rates = Rates(0.0)
    rates.update(50, 5.0)
    assert rates.averages == (10.0, 10.0, 10.0)
    rates.update(50, 10.0)
    assert rates.averages == pytest.approx([10 * exp(-5 / 60), 10 * exp(-5 / 300), 10 * exp(-5 / 900)])
    assert rates.mean(50, 10.0) == 5.0


def test_a_rate_that_is_looked_at_rarely_is_the_one_of_an_even_stream() -> None:
    often, rarely = Rates(0.0), Rates(0.0)
    for each in (often, rarely):
        each.update(100, 5.0)
    for second in range(10, 65, 5):
        often.update(100 + 3 * (second - 5), float(second))
    rarely.update(100 + 3 * 55, 60.0)
    assert rarely.averages == pytest.approx(often.averages)


def test_nothing_changes_between_ticks() -> None:
    rates = Rates(0.0)
    rates.update(50, 5.0)
    rates.update(5_000, 9.9)
    assert rates.averages[0] == 10.0


@pytest.mark.parametrize("value", [0.001, 0.5, 1.0, 1.03, 2.0, 3.99, 4.0, 17.0, 1000.0, 123_456.7, 2.0**40])
def test_a_bucket_stands_for_values_that_are_close(value: float) -> None:
    assert value_of(bucket_of(value)) == pytest.approx(value, rel=0.022)


def test_buckets_grow_with_the_value_and_are_bounded() -> None:
    values = [0.0, 1e-9, 1e-5, 1e-3, 1.0, 1.5, 2.0, 1e6, 1e30]
    buckets = [bucket_of(value) for value in values]
    assert buckets == sorted(buckets)
    assert bucket_of(-5.0) == bucket_of(0.0)


def test_percentiles_bound_their_share_of_the_values() -> None:
    histogram = Histogram()
    for value in range(1, 1001):
        histogram.record(float(value), 0.0)
    found = histogram.read(0.0)
    assert found.count == 1000
    assert found.percentiles([0.5, 0.75, 0.99, 0.999]) == pytest.approx([500, 750, 990, 999], rel=0.023)
    assert found.percentiles([1.0]) == pytest.approx([1000], rel=0.023)
    assert (found.smallest, found.largest) == (1.0, 1000.0)
    assert found.mean == pytest.approx(500.5, rel=0.01)


def test_no_percentile_is_beyond_the_values_that_there_were() -> None:
    histogram = Histogram()
    histogram.record(1.001, 0.0)
    assert histogram.read(0.0).percentiles([0.5, 0.999]) == [1.001, 1.001]
    assert Distribution().percentiles([0.5]) == [0.0]


def test_distributions_add_up() -> None:
    parts = []
    for begin in (0, 500):
        histogram = Histogram()
        for value in range(begin + 1, begin + 501):
            histogram.record(float(value), 0.0)
        parts.append(histogram.read(0.0))
    both = Distribution()
    for part in parts:
        both.merge(part)
    assert both.count == 1000
    assert both.percentiles([0.5]) == pytest.approx([500], rel=0.023)
    assert (both.smallest, both.largest) == (1.0, 1000.0)


def test_zeros_count_below_every_value() -> None:
    found = Distribution()
    found.add([5.0])
    found.add_zeros(3)
    assert found.percentiles([0.5, 0.75, 0.99]) == [0.0, 0.0, 5.0]
    assert (found.count, found.smallest) == (4, 0.0)


def test_old_values_leave_the_percentiles_and_stay_in_the_count() -> None:
    histogram = Histogram()
    histogram.record(100.0, 0.0)
    histogram.fold(0.0)
    assert histogram.read(WINDOW_S - 1).percentiles([0.5]) == [100.0]
    histogram.record(1.0, WINDOW_S)
    assert histogram.read(WINDOW_S).largest == 100.0, "the last window counts, too"
    histogram.record(1.0, 2 * WINDOW_S)
    found = histogram.read(2 * WINDOW_S)
    assert (found.largest, found.count) == (1.0, 3)
    assert histogram.read(100 * WINDOW_S).recent == 0
    assert histogram.read(100 * WINDOW_S).count == 3


@pytest.mark.parametrize("number", [*range(FOLD_AT, FOLD_AT + 20), 2 * FOLD_AT - 1])
def test_many_values_are_looked_at_by_sixteens_but_for_the_largest(number: int) -> None:
    slow = 12
    values = [1.0 + each % 4 for each in range(number - slow)] + [1000.0 + each for each in range(slow)]
    Random(number).shuffle(values)
    found = Distribution()
    found.add_many(values)
    assert found.count == found.recent == found.buckets.total() == number
    assert min(found.buckets.values()) > 0
    assert found.percentiles([0.2, 0.45, 0.7, 0.95]) == pytest.approx([1, 2, 3, 4], rel=0.023)
    assert found.percentiles([1 - slow / number - 0.001, 1 - slow / number + 0.001]) == pytest.approx([4, 1000], rel=0.023)
    assert (found.smallest, found.largest, found.mean) == (1.0, 1000.0 + slow - 1, pytest.approx(sum(values) / number))


def test_a_histogram_of_many_values_is_that_of_all_of_them() -> None:
    histogram = Histogram()
    for number in range(8 * FOLD_AT + 3):
        histogram.record(float(number % 4), 0.0)
    found = histogram.read(0.0)
    assert found.count == found.recent == found.buckets.total() == 8 * FOLD_AT + 3
    assert found.percentiles([0.2, 0.4, 0.6, 0.8]) == pytest.approx([0, 1, 2, 3], rel=0.023)


def test_memory_is_bounded_whatever_is_recorded() -> None:
    histogram = Histogram()
    for value in range(20_000):
        histogram.record(value * 1.37, 0.0)
    assert len(histogram.pending) < FOLD_AT
    assert len(histogram.read(0.0).buckets) < 400


def test_a_topic_goes_with_its_last_partition_and_the_sum_does_not_fall() -> None:
    traffic = Traffic()
    counts = traffic.add_partition("t")
    assert traffic.add_partition("t") is counts
    counts.bytes_in += 7
    traffic.remove_partition("t")
    assert list(traffic.topics) == ["t"]
    traffic.remove_partition("t")
    assert traffic.topics == {}
    traffic.unhosted.bytes_in += 1
    assert traffic.total().bytes_in == 8
    assert traffic.add_partition("t").bytes_in == 0, "a new topic of the name begins anew"


def test_every_count_of_a_topic_is_summed() -> None:
    traffic = Traffic()
    counts = traffic.add_partition("t")
    for number, field in enumerate(SUMS):
        setattr(counts, field, number + 1)
    assert [getattr(traffic.total(), field) for field in SUMS] == list(range(1, len(SUMS) + 1))


def test_times_of_requests_at_once_and_of_those_that_waited() -> None:
    measured = Measured()
    measured.answered(9, 100, 1.0, 1.010)
    measured.waited(9, 300, 2.0, 2.001, 2.101)
    measured.waited(8, 300, 3.0, 3.001, 3.101)
    reading = Reading([measured], 4.0)
    shares = [0.3, 0.999]
    assert reading.total.count == reading.local.count == reading.remote.count == reading.nothing.count == 3
    assert reading.total.percentiles(shares) == pytest.approx([10, 101], rel=0.023)
    assert reading.local.percentiles(shares) == pytest.approx([1, 10], rel=0.023)
    assert reading.remote.percentiles(shares) == pytest.approx([0, 100], rel=0.023)
    assert reading.sizes.percentiles(shares) == pytest.approx([100, 300], rel=0.023)
    assert reading.throttled.percentiles(shares) == [0, 0]
    assert measured.versions == {9: 2, 8: 1}
    measured.throttle(50.0, 4.0)
    throttled = Reading([measured], 4.0).throttled
    assert (throttled.count, throttled.percentiles([0.999])) == (3, [50.0])


def test_fetches_of_consumers_and_followers_add_up() -> None:
    requests = Requests()
    consumers = requests.of("Fetch")
    assert requests.of("Fetch") is consumers
    consumers.answered(18, 10, 0.0, 0.001)
    consumers.other.answered(18, 10, 0.0, 0.001)
    consumers.other.answered(18, 10, 0.0, 0.001)
    counts = {name: sum(part.count for part in parts) for name, parts in requests.parts().items()}
    assert counts == {"FetchConsumer": 1, "FetchFollower": 2, "Fetch": 3}


def test_requests_are_folded_before_they_pile_up() -> None:
    measured = Measured()
    for _ in range(3 * FOLD_AT):
        measured.answered(9, 100, 0.0, 0.001)
    assert len(measured.at_once.pending) < FOLD_AT
    assert len(measured.sizes.pending) < FOLD_AT


def test_mbeans_have_the_names_of_jmx() -> None:
    named = Metric("kafka.log", "Log", "Size", Kind.GAUGE, "", ("topic", "partition"))
    assert named.mbean((("topic", "a.b"), ("partition", "0"))) == "kafka.log:type=Log,name=Size,topic=a.b,partition=0"
    attribute = Metric("kafka.server", "raft-metrics", "current-leader", Kind.GAUGE, "", attribute=True)
    assert attribute.mbean() == "kafka.server:type=raft-metrics"
    assert attribute.key == "kafka.server:type=raft-metrics.current-leader"
    assert quoted('a,b="*\n') == '"a,b=\\"\\*\\n"'
