"""The rules of the history checker, one by one: what is an anomaly, and above all what is none."""

from __future__ import annotations

import math
from itertools import count
from pathlib import Path

import pytest

from odradek.testing.history import Anomaly, Assigned, Commit, Copy, Event, Poll, Revoked, Send, check, examine
from odradek.testing.history.__main__ import main
from odradek.testing.history.anomalies import NAMES
from odradek.testing.history.events import Function, Kind, MicroOperation
from odradek.testing.history.operations import pair


class Script:
    """Writes a history by hand; every event is a second after the one before it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._time = count(1.0)

    def add(self, who: str, kind: Kind, function: Function, /, *micro_operations: MicroOperation, **extra: object) -> None:
        self.events.append(Event(next(self._time), who, kind, function, micro_operations, extra))

    def do(self, who: str, function: Function, /, *micro_operations: MicroOperation, kind: Kind = "ok", **extra: object) -> None:
        """An invocation and its completion."""
        self.add(who, "invoke", function)
        self.add(who, kind, function, *micro_operations, **extra)

    def rebalance(self, who: str, /, *micro_operations: MicroOperation, **extra: object) -> None:
        self.add(who, "info", "rebalance", *micro_operations, **extra)

    def names(self, **options: object) -> list[str]:
        options.setdefault("read_committed", True)
        return sorted(examine(self.events, **options).counts)  # each name once


def send(offset: int | None, value: int | str, partition: int = 0, key: int | None = None) -> Send:
    return Send("t", partition, offset, value, key)


def poll(offset: int, value: int | str, partition: int = 0, key: int | None = None) -> Poll:
    return Poll("t", partition, offset, value, key)


def given(generation: int | None, partition: int = 0) -> Assigned:
    return Assigned("g", "t", partition, generation)


def taken(generation: int | None, partition: int = 0) -> Revoked:
    return Revoked("g", "t", partition, generation)


# -- operations ---------------------------------------------------------------------------------------------------------------------


def test_what_a_killed_life_began_is_not_ended_by_the_next_one() -> None:
    script = Script()
    script.add("p", "invoke", "send", send(None, 1))
    script.add("driver", "info", "crash", process="p", how="pause")
    script.add("driver", "info", "crash", process="p")
    script.add("p", "ok", "send", send(0, 2))
    operations = list(pair(script.events))
    assert [(each.function, each.outcome, each.invoked, each.completed) for each in operations if each.process == "p"] == [
        ("send", "info", 1.0, math.inf),
        ("send", "ok", -math.inf, 4.0),
    ]


# -- values ------------------------------------------------------------------------------------------------------------------------


def test_an_aborted_record_may_be_read_uncommitted_only() -> None:
    script = Script()
    script.do("p", "txn", send(0, 1), kind="fail")
    script.do("c", "poll", poll(0, 1), isolation="read_uncommitted")
    assert script.names() == []
    assert script.names(read_committed=False) == []
    script.do("c", "poll", poll(0, 1), isolation="read_committed")
    assert "G1a" in script.names()


def test_a_failed_plain_send_may_be_read_by_nobody() -> None:
    script = Script()
    script.do("p", "send", send(None, 1), kind="fail")
    script.do("c", "poll", poll(0, 1), isolation="read_uncommitted")
    assert script.names() == ["G1a"]


def test_a_value_sent_again_after_an_abort_is_neither_a_duplicate_nor_an_aborted_read() -> None:
    script = Script()
    script.do("p", "txn", send(0, 1), kind="fail")
    script.do("p", "txn", send(2, 1))
    script.do("c", "poll", poll(2, 1))
    script.do("d", "poll", poll(0, 1), poll(2, 1), isolation="read_uncommitted")
    assert script.names() == []
    script.do("e", "poll", poll(0, 1))
    assert script.names() == ["G1a", "duplicate"]


def test_what_nobody_learned_the_outcome_of_is_lost_only_if_a_sibling_was_read() -> None:
    script = Script()
    script.do("p", "txn", send(0, 1), send(0, 2, 1), kind="info")
    script.do("p", "send", send(2, 3))
    script.do("c", "poll", poll(2, 3))
    assert script.names() == []
    script.do("c", "poll", poll(0, 2, 1))
    assert script.names() == ["lost-write"]


def test_what_is_behind_all_that_was_read_is_not_lost() -> None:
    script = Script()
    script.do("p", "send", send(0, 1))
    script.do("p", "send", send(1, 2))
    script.do("c", "poll", poll(0, 1))
    assert script.names() == []


def test_the_final_read_tells_what_was_never_seen_and_what_was_seen_once() -> None:
    script = Script()
    for offset, value in enumerate((1, 2, 3)):
        script.do("p", "send", send(offset, value))
    script.do("c", "poll", poll(0, 1))
    final = Script()
    final.add("f", "ok", "assign", Assigned(None, "t", 0, None))
    assert script.names(final_read=final.events) == ["unseen", "vanished"]
    assert script.names() == []


def test_compaction_and_retention_excuse_what_is_gone_and_nothing_else() -> None:
    script = Script()
    for offset, key in enumerate((1, 2, 1)):
        script.do("p", "send", send(offset, f"v{offset}", key=key))
    script.add("f", "ok", "assign", Assigned(None, "t", 0, None), final=True)
    script.do("f", "poll", poll(1, "v1", key=2), poll(2, "v2", key=1), final=True)
    assert script.names() == ["lost-write", "unseen"]
    assert script.names(removal={"t": "compact"}) == []
    assert script.names(removal={"t": "delete"}) == []
    script.do("c", "poll", poll(2, "v2", key=1), poll(1, "v1", key=2))
    assert script.names(removal={"t": "compact,delete"}) == ["int-nonmonotonic-poll"]


def test_the_last_value_of_a_key_must_stay() -> None:
    script = Script()
    for offset, key in enumerate((1, 2, 3)):
        script.do("p", "send", send(offset, f"v{offset}", key=key))
    script.do("f", "poll", poll(0, "v0", key=1), poll(2, "v2", key=3), final=True)
    assert "unseen" in script.names(removal={"t": "compact"})
    assert "lost-write" in script.names(removal={"t": "delete"})


# -- positions --------------------------------------------------------------------------------------------------------------------


def _three() -> Script:
    script = Script()
    for value in range(6):
        script.do("p", "send", send(2 * value, value))  # offsets between are markers
    script.do("witness", "poll", *(poll(2 * value, value) for value in range(6)))
    return script


def test_polls_may_leave_out_what_nobody_can_see() -> None:
    script = _three()
    script.do("c", "poll", poll(0, 0), poll(2, 1))
    script.do("c", "poll", poll(4, 2))
    assert script.names() == []
    script.do("c", "poll", poll(8, 4))
    assert script.names() == ["poll-skip"]


def test_failed_operations_do_not_advance() -> None:
    script = _three()
    script.do("c", "poll", poll(0, 0))
    script.do("c", "txn", poll(2, 1), kind="fail")
    script.do("c", "txn", poll(2, 1))
    assert script.names() == []


@pytest.mark.parametrize("following", [2, 4])
def test_after_an_unknown_outcome_a_process_may_stand_here_or_there(following: int) -> None:
    script = _three()
    script.do("c", "poll", poll(0, 0))
    script.do("c", "txn", poll(2, 1), kind="info")
    script.do("c", "txn", poll(following, following // 2))
    assert script.names() == []


@pytest.mark.parametrize("change", ["assign", "seek", "subscribe", "rebalance", "crash"])
def test_positions_are_forgotten(change: str) -> None:
    script = _three()
    script.do("c", "poll", poll(4, 2))
    if change == "assign":
        script.do("c", "assign", Assigned(None, "t", 1, None))
    elif change == "seek":
        script.do("c", "assign", Assigned(None, "t", 0, None), seek=True)
    elif change == "subscribe":
        script.do("c", "subscribe")
    elif change == "rebalance":
        script.rebalance("c", taken(1))
    else:
        script.add("driver", "info", "crash", process="c")
    script.do("c", "poll", poll(0, 0))
    assert script.names() == []


def test_a_partition_that_stays_assigned_keeps_its_position() -> None:
    script = _three()
    script.do("c", "poll", poll(4, 2))
    script.do("c", "assign", Assigned(None, "t", 0, None), Assigned(None, "t", 1, None))
    script.do("c", "poll", poll(0, 0))
    assert script.names() == ["nonmonotonic-poll"]


def test_a_subscriber_may_jump_if_it_does_not_tell_of_rebalances() -> None:
    script = _three()
    script.do("c", "subscribe")
    script.do("c", "poll", poll(0, 0))
    script.do("c", "poll", poll(4, 2))
    assert script.names() == []
    script.rebalance("c", given(1, 1))
    assert script.names() == ["poll-skip"]


@pytest.mark.parametrize("function", ["assign", "rebalance", "poll"])
def test_what_a_group_gives_is_read_from_where_the_group_was(function: Function) -> None:
    script = _three()
    script.do("c", "subscribe")
    script.do("c", "poll", poll(4, 2))
    script.do("c", function, given(1))
    script.do("c", "poll", poll(2, 1))
    assert script.names() == []
    script.do("c", "poll", poll(6, 3))
    assert script.names() == ["poll-skip"]


def test_within_an_operation_a_rebalanced_partition_may_jump() -> None:
    script = _three()
    script.add("c", "invoke", "poll")
    script.rebalance("c", taken(1), given(2))
    script.add("c", "ok", "poll", poll(4, 2), poll(0, 0))
    assert script.names() == []


@pytest.mark.parametrize("at_once", [False, True])
def test_pipelined_sends_are_in_the_order_of_their_invocations(at_once: bool) -> None:
    script = Script()
    for number in (1, 2):
        script.add("p", "invoke", "send", send(None, number), id=number)
    if at_once:
        script.events[1] = script.events[1]._replace(time=script.events[0].time)
    script.add("p", "ok", "send", send(1, 2), id=2)
    script.add("p", "ok", "send", send(0, 1), id=1)
    assert script.names() == []
    script.events[2:] = [
        script.events[2]._replace(micro_operations=(send(0, 2),)),
        script.events[3]._replace(micro_operations=(send(1, 1),)),
    ]
    assert script.names() == ["nonmonotonic-send"]


def test_sends_that_overlap_may_be_acknowledged_in_any_order() -> None:
    script = Script()
    script.add("a", "invoke", "send", send(None, 1))
    script.do("b", "send", send(1, 2))
    script.add("a", "ok", "send", send(0, 1))
    assert script.names() == []
    script.do("c", "send", send(1, 3))
    assert "acked-offset-regression" in script.names()


# -- cycles -------------------------------------------------------------------------------------------------------------------------


def _interleaved(*reads: Poll) -> Script:
    script = Script()
    script.add("a", "invoke", "txn")
    script.add("b", "invoke", "txn")
    script.add("a", "ok", "txn", send(0, 1), send(1, 2, 1))
    script.add("b", "ok", "txn", send(1, 3), send(0, 4, 1), *reads)
    return script


def test_writes_may_interleave() -> None:
    script = _interleaved()
    assert script.names() == []
    assert script.names(write_edges=True) == []
    assert script.names(write_edges=True, allow=()) == ["G0"]


def test_a_cycle_through_writes_and_a_read_is_allowed_too() -> None:
    script = Script()
    script.add("a", "invoke", "txn")
    script.add("b", "invoke", "txn")
    script.add("a", "ok", "txn", send(0, 1), send(1, 2, 1))
    script.add("b", "ok", "txn", send(0, 4, 1), poll(0, 1))
    assert script.names() == []
    assert script.names(write_edges=True) == ["G1c"]


def test_reads_in_a_circle_are_allowed_uncommitted() -> None:
    script = Script()
    script.add("a", "invoke", "txn")
    script.add("b", "invoke", "txn")
    script.add("a", "ok", "txn", send(0, 1), poll(0, 2, 1))
    script.add("b", "ok", "txn", send(0, 2, 1), poll(0, 1))
    assert script.names() == ["G1c"]
    assert script.names(read_committed=False) == []


# -- brokers ------------------------------------------------------------------------------------------------------------------------


def test_watermarks_of_overlapping_requests_may_cross_and_unclean_elections_are_told() -> None:
    script = Script()
    script.add("a", "invoke", "poll")
    script.do("b", "poll", watermarks=[["t", 0, 0, 9, 9]])
    script.add("a", "ok", "poll", watermarks=[["t", 0, 0, 8, 7]])
    assert script.names() == []
    script.add("driver", "info", "crash", process="broker", unclean=[["t", 0]])
    script.do("b", "poll", watermarks=[["t", 0, 0, 5, 5]])
    assert script.names() == []
    script.do("b", "poll", watermarks=[["t", 0, 0, 4, None]])
    assert script.names() == ["watermark-regression"]


def test_waits_count_only_while_a_majority_is_up() -> None:
    script = Script()
    script.do("p", "send", send(0, 1))
    script.add("driver", "info", "crash", process="broker", majority=False)
    script.do("p", "send", send(None, 2), kind="info")
    for _ in range(10):
        script.do("c", "poll")
    script.add("driver", "info", "crash", how="back", process="broker", majority=True)
    script.do("p", "send", send(1, 3))
    assert script.names(unavailable_after=5) == []
    script.do("p", "send", send(None, 4), kind="info")
    for _ in range(3):
        script.do("c", "poll")
    script.do("p", "send", send(2, 5))
    assert script.names(unavailable_after=5) == ["unavailable"]


def test_a_wait_without_a_success_at_its_end_counts_until_the_last_failure() -> None:
    script = Script()
    script.do("p", "send", send(0, 1))
    script.add("killed", "invoke", "send", send(None, 2))
    script.add("driver", "info", "crash", process="killed")
    for _ in range(10):
        script.do("c", "poll")
    assert script.names(unavailable_after=5) == [], "the process that sent it was killed"
    script.do("p", "send", send(None, 3), kind="fail")
    assert script.names(unavailable_after=5) == ["unavailable"]


# -- groups -------------------------------------------------------------------------------------------------------------------------


def test_a_partition_changes_hands_when_it_was_given_up() -> None:
    script = Script()
    script.rebalance("a", given(1))
    script.rebalance("a", taken(1))
    script.rebalance("b", given(2))
    assert script.names() == []


def test_a_late_revocation_is_double_ownership_unless_the_member_was_fenced() -> None:
    script = Script()
    script.rebalance("a", given(1))
    script.rebalance("b", given(2))
    script.rebalance("a", taken(1))
    assert script.names() == ["two-owners"]
    script.events[-1] = script.events[-1]._replace(extra={"lost": True})
    assert script.names() == ["unexplained-fencing"]
    script.events.insert(1, Event(1.5, "driver", "info", "crash", (), {"process": "a", "how": "pause"}))
    assert script.names() == []


def test_a_killed_member_owns_nothing() -> None:
    script = Script()
    script.rebalance("a", given(1))
    script.add("driver", "info", "crash", process="a")
    script.rebalance("b", given(2))
    assert script.names() == []


def test_killing_does_not_allow_two_owners_in_one_generation() -> None:
    script = Script()
    script.rebalance("a", given(1))
    script.add("driver", "info", "crash", process="a")
    script.rebalance("b", given(1))
    assert script.names() == ["two-owners-in-generation"]


def test_a_paused_member_is_excused_until_it_is_heard_of() -> None:
    script = Script()
    script.rebalance("a", given(1))
    script.add("driver", "info", "crash", process="a", how="pause")
    script.add("driver", "info", "crash", process="a", how="resume")
    script.rebalance("b", given(2))
    assert script.names() == []
    script.events.pop()
    script.do("a", "commit", Commit("g", "t", 0, 1))
    script.rebalance("b", given(2))
    assert script.names() == ["two-owners"]


def test_without_generations_time_alone_judges() -> None:
    script = Script()
    script.rebalance("a", given(None))
    script.rebalance("a", taken(None))
    script.rebalance("b", given(None))
    assert script.names() == []
    script.rebalance("c", given(None))
    assert script.names() == ["two-owners"]


def test_commits_of_fenced_members_must_fail() -> None:
    script = Script()
    script.rebalance("a", given(1))
    script.add("driver", "info", "crash", process="a", how="pause")
    script.rebalance("b", given(2))
    script.do("a", "commit", Commit("g", "t", 0, 5), kind="fail")
    script.do("b", "commit", Commit("g", "t", 0, 5))
    assert script.names() == []
    script.do("a", "commit", Commit("g", "t", 0, 6))
    assert script.names() == ["fenced-commit-accepted"]


def test_commits_that_overlap_may_cross_and_positions_may_be_reset_on_purpose() -> None:
    script = Script()
    script.add("a", "invoke", "commit")
    script.do("b", "commit", Commit("g", "t", 0, 7))
    script.add("a", "ok", "commit", Commit("g", "t", 0, 6))
    assert script.names() == []
    script.do("admin", "commit", Commit("g", "t", 0, 0), reset=True)
    script.do("a", "commit", Commit("g", "t", 0, 3))
    assert script.names() == []
    script.do("a", "commit", Commit("g", "t", 0, 2))
    assert script.names() == ["commit-regression"]


def _static_restart() -> Script:
    script = Script()
    script.rebalance("a#1", given(3), static="a")
    script.rebalance("b", given(3, 1))
    script.add("driver", "info", "crash", process="a#1")
    return script


def test_a_static_member_comes_back_to_what_it_had() -> None:
    script = _static_restart()
    script.rebalance("a#2", given(3), static="a")
    assert script.names() == []


def test_a_static_restart_must_not_raise_the_generation_nor_touch_others() -> None:
    script = _static_restart()
    script.rebalance("a#2", given(4), static="a")
    assert script.names() == ["static-rebalance"]
    script = _static_restart()
    script.rebalance("b", taken(3, 1))
    script.rebalance("a#2", given(3), static="a")
    assert script.names() == ["static-rebalance"]


def test_while_others_come_and_go_a_static_restart_proves_nothing() -> None:
    script = _static_restart()
    script.add("driver", "info", "crash", process="b")
    script.rebalance("a#2", given(4), given(4, 1), static="a")
    assert script.names() == []


# -- copies, the command --------------------------------------------------------------------------------------------------------------


def test_a_pipeline_may_drop_and_change_values() -> None:
    script = Script()
    for value in range(3):
        script.do("p", "send", send(value, value))
    script.do("c", "txn", poll(0, 0), poll(1, 1), poll(2, 2), Send("out", 0, 0, "a0"), Send("out", 0, 1, "a2"))
    copy = Copy("t", "out", lambda value: None if value == 1 else f"a{value}")
    assert script.names(copies=[copy]) == []
    assert script.names(copies=[Copy("t", "out", lambda value: f"a{value}")]) == ["not-copied"]


def test_the_command_names_anomalies_and_says_what_it_saw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = '{"t":%d.0,"p":"c","k":"ok","f":"poll","v":[["poll","t",0,%d,%d]]}\n'
    path = tmp_path / "c.jsonl"
    path.write_text(line % (1, 5, 1) + line % (2, 4, 2))
    assert main(["check", str(path)]) == 1
    told = capsys.readouterr().out
    assert "nonmonotonic-poll: t-0: c read offset 4 after 5" in told
    assert "2 poll ok" in told
    assert "ANOMALIES: 1 nonmonotonic-poll" in told
    assert main(["check", "--json", str(path)]) == 1
    assert '"nonmonotonic-poll": 1' in capsys.readouterr().out
    assert main(["check", "--allow", "nonmonotonic-poll", str(path)]) == 0
    assert main(["check", str(tmp_path / "none")]) == 2


def test_anomalies_have_known_names_and_are_counted_beyond_what_is_kept() -> None:
    script = Script()
    for _ in range(5):
        script.do("c", "poll", poll(0, 1))
    report = examine(script.events, limit=2)
    assert report.counts == {"nonmonotonic-poll": 4}
    assert len(report.anomalies) == 2
    assert all(anomaly.name in NAMES for anomaly in report.anomalies)
    assert isinstance(check(script.events)[0], Anomaly)
    with pytest.raises(ValueError, match="unknown anomaly"):
        check(script.events, allow=["poll-leap"])
