"""`storage format`, `info` and `random-uuid`: what is written, what is refused and in which words."""

from __future__ import annotations

import random

import pytest

from odradek.base.errors import StorageError
from odradek.base.ids import random_uuid, uuid_from_string, uuid_to_string
from odradek.config.broker import BrokerConfig
from odradek.controller.format import (
    FormatError,
    FormatResult,
    bootstrap_records,
    check_finalized,
    format_storage,
    parse_initial_controllers,
    storage_info,
)
from odradek.controller.kraft.bootstrap import read_bootstrap
from odradek.controller.kraft.snapshots import summarize_snapshot
from odradek.protocol.messages.metadata_records import FeatureLevelRecord
from odradek.storage.meta_properties import read_meta_properties
from odradek.testing.simulation.disk import VirtualDisk

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
DIRECTORY_ID = "JEXY6aqzQY-32P5TStzaFg"


def config(**changes: str) -> BrokerConfig:
    values = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
        "log.dirs": "/a,/b",
    }
    values.update({key.replace("_", "."): value for key, value in changes.items()})
    return BrokerConfig({key: value for key, value in values.items() if value})


DYNAMIC = {"controller_quorum_voters": "", "controller_quorum_bootstrap_servers": "localhost:9093"}


def formatted(disk: VirtualDisk, settings: BrokerConfig, cluster_id: str = CLUSTER_ID, **options: object) -> FormatResult:
    return format_storage(disk, settings, cluster_id=cluster_id, rng=random.Random(1), now_ms=5, **options)  # type: ignore[arg-type]


def test_every_directory_gets_an_identity_and_the_bootstrap_records() -> None:
    disk = VirtualDisk()
    result = formatted(disk, config())
    assert result.lines[1:] == [
        "Formatting metadata directory /a with metadata.version 4.3-IV0.",
        "Formatting data directory /b with metadata.version 4.3-IV0.",
    ]
    identities = [read_meta_properties(disk, directory) for directory in ("/a", "/b")]
    assert {each.cluster_id for each in identities if each} == {CLUSTER_ID}
    assert len({each.directory_id for each in identities if each}) == 2
    for directory in ("/a", "/b"):
        assert [record.message for record in read_bootstrap(disk, directory)] == [
            FeatureLevelRecord(name="metadata.version", feature_level=30),
            FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
            FeatureLevelRecord(name="group.version", feature_level=1),
            FeatureLevelRecord(name="transaction.version", feature_level=2),
        ]
    assert not disk.exists("/a/__cluster_metadata-0")


def test_a_standalone_controller_is_its_own_first_voter() -> None:
    disk = VirtualDisk()
    formatted(disk, config(**DYNAMIC), standalone=True)
    contents = summarize_snapshot(disk, "/a/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
    properties = read_meta_properties(disk, "/a")
    assert properties is not None
    assert contents.kraft_version == 1
    assert contents.voters is not None
    assert [voter.key for voter in contents.voters] == [(1, properties.directory_id)]
    assert not disk.exists("/b/__cluster_metadata-0")


def test_the_directory_id_of_initial_controllers_is_taken_over() -> None:
    disk = VirtualDisk()
    controllers = f"1@localhost:9093:{DIRECTORY_ID},2@[::1]:9094:MvDxzVmcRsaTz33bUuRU6A"
    formatted(disk, config(**DYNAMIC), initial_controllers=controllers)
    properties = read_meta_properties(disk, "/a")
    assert properties is not None
    assert properties.directory_id == uuid_from_string(DIRECTORY_ID)
    contents = summarize_snapshot(disk, "/a/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
    assert contents.voters is not None
    assert contents.voters.endpoints(2)[0][1:] == ("::1", 9094)


def test_formatted_directories_are_refused_or_passed_over() -> None:
    disk = VirtualDisk()
    formatted(disk, config())
    with pytest.raises(FormatError, match=r"Log directory /a is already formatted\. Use --ignore-formatted"):
        formatted(disk, config())
    assert formatted(disk, config(), ignore_formatted=True).lines == ["All of the log directories are already formatted."]
    assert formatted(disk, config(log_dirs="/a,/b,/c"), ignore_formatted=True).directories == ["/c"]
    with pytest.raises(FormatError, match=r"Invalid cluster.id in: /a/meta.properties. Expected other, but read MkU3"):
        formatted(disk, config(), "other", ignore_formatted=True)


@pytest.mark.parametrize(
    ("settings", "options", "error"),
    [
        ({}, {"standalone": True}, "You cannot specify controller.quorum.voters and format the node with"),
        (DYNAMIC, {}, "you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers."),
        ({}, {"feature_levels": {"kraft.version": 1}}, "Cannot set kraft.version to 1 unless"),
        (DYNAMIC, {"standalone": True, "feature_levels": {"kraft.version": 0}}, "Cannot set kraft.version to 0 if"),
        ({}, {"feature_levels": {"none.version": 1}}, "Unsupported feature: none.version. Supported features are: "),
        ({}, {"feature_levels": {"share.version": 1}}, "share.version 1 is not supported by Odradek yet"),
        ({}, {"feature_levels": {"group.version": 9}}, "Feature level 9 is not supported for feature group.version"),
        ({}, {"release_version": "9.9"}, "Unknown metadata.version"),
        ({}, {"release_version": "4.3", "feature_levels": {"metadata.version": 30}}, "Use --release-version instead"),
    ],
)
def test_what_cannot_be_formatted_is_refused_before_anything_is_written(
    settings: dict[str, str], options: dict[str, object], error: str
) -> None:
    disk = VirtualDisk()
    with pytest.raises(FormatError, match=error):
        formatted(disk, config(**settings), **options)
    assert not disk.exists("/a/meta.properties")
    assert not disk.exists("/a/bootstrap.checkpoint")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "No voters given."),
        ("1", "No @ found"),
        ("@host:1:x", "Invalid @ at beginning"),
        ("x@host:1:y", "Failed to parse node id"),
        ("-1@host:1:y", "Invalid negative node id -1"),
        ("1@", "No hostname found after node id."),
        ("1@[::1:9093:x", "no right bracket was found"),
        ("1@[::1]9093:x", "Port section must start with a colon"),
        ("1@host", "No colon following hostname"),
        ("1@host:9093", "No colon following port"),
        ("1@host:port:x", "Failed to parse port"),
        ("1@host:70000:JEXY6aqzQY-32P5TStzaFg", "Invalid port 70000"),
        ("1@host:9093:short", "Failed to parse directory ID"),
        (f"1@a:1:{DIRECTORY_ID},1@b:1:{DIRECTORY_ID}", "Node id 1 was specified more than once."),
    ],
)
def test_initial_controllers_are_checked(text: str, error: str) -> None:
    with pytest.raises(FormatError, match=error):
        parse_initial_controllers(text, "CONTROLLER")


def test_an_older_release_can_be_chosen() -> None:
    (record,) = bootstrap_records("3.9", {})
    assert record.message == FeatureLevelRecord(name="metadata.version", feature_level=21)


def test_info_tells_what_is_there_and_what_is_wrong() -> None:
    disk = VirtualDisk()
    missing = storage_info(disk, config())
    assert missing.problems
    assert missing.lines == ["Found problems:", "  /a does not exist", "  /b does not exist", ""]
    formatted(disk, config())
    found = storage_info(disk, config())
    assert not found.problems
    assert found.lines[:4] == ["Found log directories:", "  /a", "  /b", ""]
    assert found.lines[4].startswith(f"Found metadata: {{cluster.id={CLUSTER_ID}, directory.id=")
    disk.makedirs("/c")
    assert storage_info(disk, config(log_dirs="/a,/b,/c")).lines[-3:] == ["Found problem:", "  /c is not formatted.", ""]


def test_random_ids_are_kafkas() -> None:
    rng = random.Random(3)
    texts = {uuid_to_string(random_uuid(rng)) for _ in range(200)}
    assert len(texts) == 200
    assert all(len(text) == 22 and not text.startswith("-") for text in texts)


def test_finalized_levels_are_served_warned_of_or_refused() -> None:
    assert check_finalized({"metadata.version": 30, "kraft.version": 1}) == []
    assert len(check_finalized({"metadata.version": 30, "share.version": 1, "group.version": 1, "transaction.version": 2})) == 1
    with pytest.raises(StorageError, match=r"metadata.version at level 31; levels 7 to 30 are known"):
        check_finalized({"metadata.version": 31})
    with pytest.raises(StorageError, match="the feature is not known"):
        check_finalized({"unheard.version": 1})
