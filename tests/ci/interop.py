"""Slice of `make interop` for a change: a fixed core, and the files whose packages the change touches, within a budget of seconds.

    python -m tests.ci.interop [--since REVISION|base] [--seconds N] [--list] [-- ARGUMENTS]   runs pytest on the slice

What does not fit into the budget is drawn by the hash of the base, so that another change runs other files, and is listed.
The whole is `make interop`, run by hand.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Collection, Sequence

from tests.ci import changes, flaky

BUDGET_S = 400
"""Seconds of the slice on two cores, the sum of the files' seconds being twice as many."""

CORE = (
    "tests/interop/test_differential.py",
    "tests/interop/test_features.py",
    "tests/interop/test_verifiable_clients.py",
    "tests/protocol/test_jvm.py",
    "tests/storage/test_jvm.py",
)
"""Run for every change: each API's answer byte for byte, levels of features, the JVM's own clients, every message, log directories."""

SECONDS = {
    "tests/assignment/test_jvm.py": 15,
    "tests/campaigns/test_directories.py": 15,
    "tests/campaigns/test_slices_of_coordinators.py": 30,
    "tests/campaigns/test_slices_of_exactly_once.py": 25,
    "tests/campaigns/test_slices_of_hostile_clients.py": 90,
    "tests/campaigns/test_slices_of_kills.py": 80,
    "tests/cli/test_security_page.py": 15,
    "tests/client/assignors/test_jvm.py": 15,
    "tests/client/schemas/test_in_clients.py": 15,
    "tests/client/test_admin_page.py": 15,
    "tests/client/test_arrow.py": 15,
    "tests/client/test_bad_items.py": 15,
    "tests/client/test_buffers.py": 15,
    "tests/client/test_clients.py": 15,
    "tests/client/test_configuration.py": 15,
    "tests/client/test_consumer.py": 15,
    "tests/client/test_consumer_groups.py": 50,
    "tests/client/test_consumer_page.py": 15,
    "tests/client/test_consumers_elsewhere.py": 15,
    "tests/client/test_deserializers.py": 15,
    "tests/client/test_handed_out.py": 15,
    "tests/client/test_interceptors.py": 15,
    "tests/client/test_origin.py": 15,
    "tests/client/test_producer_hooks.py": 15,
    "tests/client/test_producer_page.py": 15,
    "tests/client/test_sent_before.py": 15,
    "tests/client/test_serializers.py": 15,
    "tests/client/test_taking.py": 15,
    "tests/client/test_transactions.py": 30,
    "tests/client/test_two_phases.py": 15,
    "tests/client/test_waiting_calls.py": 15,
    "tests/client/test_wakeup.py": 15,
    "tests/config/test_jvm.py": 15,
    "tests/controller/test_kraft_jvm.py": 60,
    "tests/interop/test_acls.py": 30,
    "tests/interop/test_admin_client.py": 30,
    "tests/interop/test_admin_cluster.py": 30,
    "tests/interop/test_brokers_mixed.py": 150,
    "tests/interop/test_cli_console.py": 60,
    "tests/interop/test_cli_dump_log.py": 30,
    "tests/interop/test_cli_groups_configs_acls.py": 80,
    "tests/interop/test_cli_log_dirs_delete_records.py": 30,
    "tests/interop/test_cli_perf.py": 60,
    "tests/interop/test_cli_reading.py": 30,
    "tests/interop/test_cli_topics_quorum_reassign.py": 60,
    "tests/interop/test_client_choices.py": 30,
    "tests/interop/test_client_groups.py": 30,
    "tests/interop/test_client_groups_nearest.py": 30,
    "tests/interop/test_command_line_clients.py": 30,
    "tests/interop/test_configuration.py": 30,
    "tests/interop/test_consumer_positions.py": 30,
    "tests/interop/test_coordinator_directories.py": 60,
    "tests/interop/test_differential.py": 200,
    "tests/interop/test_directories.py": 40,
    "tests/interop/test_features.py": 30,
    "tests/interop/test_group_directories.py": 60,
    "tests/interop/test_group_tools.py": 150,
    "tests/interop/test_kerberos.py": 60,
    "tests/interop/test_kerberos_clients.py": 30,
    "tests/interop/test_lakes.py": 120,
    "tests/interop/test_log_directories.py": 40,
    "tests/interop/test_logins.py": 100,
    "tests/interop/test_metrics.py": 30,
    "tests/interop/test_nearest_replica.py": 30,
    "tests/interop/test_network_page.py": 30,
    "tests/interop/test_old_messages.py": 30,
    "tests/interop/test_policies.py": 50,
    "tests/interop/test_python_clients.py": 60,
    "tests/interop/test_quorum_mixed.py": 100,
    "tests/interop/test_quotas.py": 30,
    "tests/interop/test_releases.py": 60,
    "tests/interop/test_sasl_clients.py": 30,
    "tests/interop/test_sasl_differential.py": 60,
    "tests/interop/test_secured_clients.py": 30,
    "tests/interop/test_settings_at_run_time.py": 60,
    "tests/interop/test_spark_connector.py": 300,
    "tests/interop/test_spark_connector_streams.py": 200,
    "tests/interop/test_spark_releases.py": 120,
    "tests/interop/test_swaps.py": 120,
    "tests/interop/test_tls_listeners.py": 40,
    "tests/interop/test_transaction_directories.py": 60,
    "tests/interop/test_transaction_tools.py": 30,
    "tests/interop/test_transactions.py": 30,
    "tests/interop/test_verifiable_clients.py": 60,
    "tests/network/test_keystores.py": 15,
    "tests/protocol/test_jvm.py": 15,
    "tests/providers/test_jvm_providers.py": 15,
    "tests/quotas/test_jvm.py": 15,
    "tests/records/test_compaction_jvm.py": 30,
    "tests/records/test_jvm.py": 15,
    "tests/records/test_levels.py": 15,
    "tests/replication/test_isr_model.py": 10,
    "tests/security/test_jvm_decisions.py": 15,
    "tests/security/test_jvm_names.py": 15,
    "tests/server/test_hostile_rows.py": 60,
    "tests/server/test_node_processes.py": 15,
    "tests/simulation/test_cluster_stories.py": 20,
    "tests/simulation/test_mutations.py": 20,
    "tests/simulation/test_scenario.py": 5,
    "tests/spark/functions/test_connect.py": 40,
    "tests/spark/functions/test_peer.py": 15,
    "tests/spark/test_connect.py": 40,
    "tests/spark/test_exactly_once.py": 60,
    "tests/spark/test_log_source.py": 15,
    "tests/spark/test_standalone.py": 40,
    "tests/spark/test_tutorial.py": 120,
    "tests/spark/test_workers_python.py": 40,
    "tests/storage/test_dump_log_segments.py": 15,
    "tests/storage/test_jvm.py": 30,
    "tests/storage/test_jvm_compaction.py": 40,
}
"""Files with tests against JVM Kafka or long ones, but for those of minutes; the seconds of each beside another file, on two cores."""

CONCERNS: dict[str, str] = {
    "test_acls": "security handlers metadata cli",
    "test_admin_client": "client handlers controller",
    "test_admin_cluster": "client handlers controller",
    "test_brokers_mixed": "replication controller consensus server metadata",
    "test_cli_console": "cli client",
    "test_cli_dump_log": "cli storage records",
    "test_cli_groups_configs_acls": "cli client",
    "test_cli_log_dirs_delete_records": "cli client",
    "test_cli_perf": "cli client",
    "test_cli_reading": "cli client records",
    "test_cli_topics_quorum_reassign": "cli client",
    "test_client_choices": "client",
    "test_cluster_stories": "controller consensus replication testing",
    "test_client_groups": "client coordinator assignment",
    "test_client_groups_nearest": "client replication",
    "test_command_line_clients": "client network server",
    "test_configuration": "config handlers",
    "test_consumer_positions": "client coordinator",
    "test_coordinator_directories": "coordinator storage",
    "test_differential": "handlers protocol controller coordinator",
    "test_directories": "storage records",
    "test_features": "controller metadata cli",
    "test_group_directories": "coordinator storage",
    "test_group_tools": "coordinator handlers cli",
    "test_kerberos": "security network",
    "test_kerberos_clients": "security client",
    "test_lakes": "spark",
    "test_log_directories": "storage replication handlers",
    "test_logins": "security network client",
    "test_metrics": "metrics server",
    "test_mutations": "storage replication coordinator testing",
    "test_nearest_replica": "replication client",
    "test_network_page": "network config",
    "test_old_messages": "records storage",
    "test_policies": "policies controller config",
    "test_python_clients": "client server network coordinator",
    "test_quorum_mixed": "consensus controller metadata server",
    "test_quotas": "quotas server handlers",
    "test_releases": "server testing",
    "test_sasl_clients": "security client network",
    "test_sasl_differential": "security network",
    "test_scenario": "storage server testing",
    "test_secured_clients": "security network client",
    "test_settings_at_run_time": "config server network",
    "test_slices_of_coordinators": "coordinator controller client",
    "test_slices_of_exactly_once": "coordinator client replication",
    "test_slices_of_hostile_clients": "network server handlers security",
    "test_slices_of_kills": "storage replication server testing consensus",
    "test_spark_connector": "spark",
    "test_spark_connector_streams": "spark",
    "test_spark_releases": "spark",
    "test_swaps": "storage metadata",
    "test_tls_listeners": "network security",
    "test_transaction_directories": "coordinator storage records",
    "test_transaction_tools": "coordinator handlers",
    "test_transactions": "coordinator client replication",
    "test_verifiable_clients": "client handlers replication",
}
"""The packages of src/odradek that a file of interop, campaigns or simulation shows. A file elsewhere shows the package of its folder."""


def concerns(path: str) -> set[str]:
    """Return the packages that a file of tests shows."""
    folder, name = path.split("/")[1], path.rpartition("/")[2].removesuffix(".py")
    return set(CONCERNS.get(name, folder).split()) if folder in ("interop", "campaigns", "simulation") else {folder}


def touched(paths: Collection[str]) -> set[str]:
    """Return the packages of the changed files, those of tests as well as those of sources."""
    found = set()
    for path in paths:
        parts = path.split("/")
        if path.startswith(("src/pyspark_odradek", "examples/", "docs/tutorial")):
            found.add("spark")
        elif path.startswith("src/odradek/") and len(parts) > 3:
            found.add(parts[2])
        elif path.startswith("tests/") and len(parts) > 2:
            found.add(parts[1])
    return found


def chosen(files: Sequence[str], changed: Collection[str], budget_s: float, seed: str) -> tuple[list[str], list[str]]:
    """Return the files of the slice, and those that the change touches but the budget does not hold.

    The core is always there. Then come files that changed themselves, then those of touched packages in an order drawn by the seed.
    """
    packages = touched(changed)
    wanted = [path for path in files if path not in CORE and (path in changed or concerns(path) & packages)]
    random.Random(seed).shuffle(wanted)
    wanted.sort(key=lambda path: path not in changed)
    slice_ = [path for path in files if path in CORE]
    left = 2 * budget_s - sum(SECONDS[path] for path in slice_)
    over = []
    for path in wanted:
        if SECONDS[path] <= left:
            slice_.append(path)
            left -= SECONDS[path]
        else:
            over.append(path)
    return sorted(slice_, key=SECONDS.__getitem__, reverse=True), over


def main(argv: Sequence[str] | None = None) -> int:
    words, arguments = flaky.parted(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="python -m tests.ci.interop", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--since", default="base", metavar="REVISION")
    parser.add_argument("--seconds", type=float, default=BUDGET_S)
    parser.add_argument("--list", action="store_true", help="only print what would run")
    options = parser.parse_args(words)
    since = changes.base() if options.since == "base" else options.since
    slice_, over = chosen(sorted(SECONDS), changes.files(since), options.seconds, seed=since)
    for path in over:
        print(f"touched, but beyond the budget of {options.seconds:.0f} s: {path} ({SECONDS[path]} s)")
    print(f"{len(slice_)} of {len(SECONDS)} files, some {sum(SECONDS[path] for path in slice_) / 2:.0f} s", flush=True)
    if options.list:
        print(*slice_, sep="\n")
        return 0
    return flaky.run(["-m", "(jvm or long) and not minutes", *arguments, *slice_])


if __name__ == "__main__":
    sys.exit(main())
