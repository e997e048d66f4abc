"""Reactions of a broker to changes of its log directories: failures and cordons are reported, and the last failure ends the process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.base.errors import StorageError
from odradek.config.keys.log import CORDONED_LOG_DIRS
from odradek.config.keys.transactions import PRODUCER_ID_EXPIRATION_MS, TRANSACTION_PARTITION_VERIFICATION_ENABLE
from odradek.server.step import Step
from odradek.storage.log_manager import LogManager

if TYPE_CHECKING:
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.server.cluster.registration import BrokerRegistrar
    from odradek.server.start.identity import NodeIdentity
    from odradek.server.start.node import Node

logger = logging.getLogger(__name__)


class LogDirectories:
    """Reporter of failed and cordoned log directories: from the log manager to the replica manager and the registrar, once set."""

    def __init__(
        self, config: DynamicBrokerConfig, log_manager: LogManager, ids: Mapping[str, UUID], fatal: Callable[[BaseException], object]
    ) -> None:
        """Watch the log manager. `ids` are the directory ids by path; `fatal` ends the process."""
        self._config = config
        self.log_manager = log_manager
        self._ids = ids
        self._fatal = fatal
        self._failure: StorageError | None = None
        self.replica_manager: ReplicaManager | None = None
        self.registrar: BrokerRegistrar | None = None
        self.loaded = False
        """Whether the logs are in memory: only then can they be closed, and be marked as closed cleanly."""
        self.offline_ids: list[UUID] = []
        """Offline directories for heartbeats."""
        own = set(config.static.log_dirs) if config.static.is_broker else set[str]()
        for directory in log_manager.directories:
            directory.takes_logs = directory.path in own
        log_manager.on_directory_failure = self.failed
        self._cordon()
        config.subscribe((CORDONED_LOG_DIRS,), self._cordon_changed)

    @property
    def online_ids(self) -> list[UUID]:
        """Ids of the working directories of log.dirs, to be registered."""
        return [self._ids[each.path] for each in self.log_manager.online_directories if each.takes_logs and each.path in self._ids]

    @property
    def cordoned_ids(self) -> list[UUID]:
        """Ids of the cordoned directories (cordoned.log.dirs), for heartbeats."""
        return [self._ids[each.path] for each in self.log_manager.online_directories if each.cordoned and each.path in self._ids]

    def failed(self, path: str, error: Exception) -> None:
        """Report a log directory that has gone offline, or end the node when it cannot go on without the directory."""
        static = self._config.static
        if self._failure is not None:
            return
        if path == static.metadata_log_dir:
            self._end(f"the metadata log directory {path} failed: {error}")
            return
        if static.is_broker and not any(each.takes_logs for each in self.log_manager.online_directories):
            self._end(f"all log directories have failed, the last one is {path}: {error}")
            return
        if path in self._ids:
            self.offline_ids.append(self._ids[path])
        if self.replica_manager is not None:
            self.replica_manager.directory_failed(path)
        if self.registrar is not None and path in self._ids:
            self.registrar.directory_failed(self._ids[path])

    def _end(self, text: str) -> None:
        self._failure = StorageError(text)
        self._fatal(self._failure)

    def raise_failure(self) -> None:
        """Raise StorageError when the node cannot go on without the failed directories."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Close the loaded logs and write the clean-shutdown markers. Blocks."""
        self.log_manager.shutdown(-1 if self.registrar is None else self.registrar.broker_epoch)

    def release(self) -> None:
        """Unlock the directories."""
        for directory in self.log_manager.directories:
            directory.release()

    # -- cordons -----------------------------------------------------------------------------------------------------------------------

    def _cordon(self) -> None:
        self.log_manager.cordon(self._config.current.cordoned_log_dirs)

    def _cordon_changed(self) -> None:
        self._cordon()
        logger.info("cordoned log directories: %s", ", ".join(self._config.current.cordoned_log_dirs) or "none")
        if self.registrar is not None:
            self.registrar.directories_changed()


class LockDirectories(Step[LogDirectories]):
    """Step that locks the log directories. Its stop closes all logs, writes the clean-shutdown markers and unlocks."""

    name = "directories"
    stop_timeout_s = 300.0

    def __init__(self, node: Node, identity: NodeIdentity) -> None:
        config = node.config
        self._node = node
        self._identity = identity
        used = dict.fromkeys((*(config.log_dirs if config.is_broker else ()), config.metadata_log_dir))
        log_manager = node.log_manager = LogManager(
            node.disk,
            node.clock,
            list(used),
            config,
            random=node.random,
            directory_ids=identity.directory_ids,
            producer_expiration_ms=config[PRODUCER_ID_EXPIRATION_MS],
            verify_transactions=config[TRANSACTION_PARTITION_VERIFICATION_ENABLE],
            new_lock=threading.Lock,
        )
        self._directories = LogDirectories(node.services.dynamic_config, log_manager, identity.directory_ids, node.fatal)

    async def start(self) -> LogDirectories:
        log_manager = self._directories.log_manager
        used = {directory.path for directory in log_manager.directories}
        for path, error in self._identity.unusable.items():
            if path in used:
                log_manager.directory_failed(path, error)
        log_manager.lock_directories()
        self._directories.raise_failure()
        return self._directories

    async def stop(self) -> None:
        directories = self._directories
        try:
            if directories.loaded:
                await self._node.jobs.run(directories.close)
        except Exception:
            # After a cancellation the close goes on in its thread, and the directories must stay locked.
            directories.release()
            raise
        directories.release()
