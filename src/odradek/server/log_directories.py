"""What a broker does about its log directories: failures are made known, cordons too, and with the last one the process ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.base.errors import StorageError

if TYPE_CHECKING:
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.server.registration import BrokerRegistration
    from odradek.storage.log_manager import LogManager

logger = logging.getLogger(__name__)


class LogDirectories:
    """Between the log manager, which notices, and who has to know. `replica_manager` and `registration` are set when they are there."""

    def __init__(
        self, config: DynamicBrokerConfig, log_manager: LogManager, ids: Mapping[str, UUID], fatal: Callable[[BaseException], object]
    ) -> None:
        """`ids` are the directory ids by path; `fatal` ends the process."""
        self._config = config
        self._log_manager = log_manager
        self._ids = ids
        self._fatal = fatal
        self._ended = False
        self.replica_manager: ReplicaManager | None = None
        self.registration: BrokerRegistration | None = None
        self.offline_ids: list[UUID] = []
        """What heartbeats report."""
        own = set(config.static.log_dirs) if config.static.is_broker else set[str]()
        for directory in log_manager.directories:
            directory.takes_logs = directory.path in own
        log_manager.on_directory_failure = self.failed
        self._cordon()
        config.subscribe(("cordoned.log.dirs",), self._cordon_changed)

    @property
    def online_ids(self) -> list[UUID]:
        """The directories to register: those of log.dirs that work."""
        return [self._ids[each.path] for each in self._log_manager.online_directories if each.takes_logs and each.path in self._ids]

    @property
    def cordoned_ids(self) -> list[UUID]:
        """What heartbeats report of cordoned.log.dirs."""
        return [self._ids[each.path] for each in self._log_manager.online_directories if each.cordoned and each.path in self._ids]

    def failed(self, path: str, error: Exception) -> None:
        """A log directory has just gone offline."""
        static = self._config.static
        if self._ended:
            return
        if path == static.metadata_log_dir:
            self._end(f"the metadata log directory {path} failed: {error}")
            return
        if static.is_broker and not any(each.takes_logs for each in self._log_manager.online_directories):
            self._end(f"all log directories have failed, the last one is {path}: {error}")
            return
        if path in self._ids:
            self.offline_ids.append(self._ids[path])
        if self.replica_manager is not None:
            self.replica_manager.directory_failed(path)
        if self.registration is not None and path in self._ids:
            self.registration.directory_failed(self._ids[path])

    def _end(self, text: str) -> None:
        self._ended = True
        self._fatal(StorageError(text))

    # -- cordons -----------------------------------------------------------------------------------------------------------------------

    def _cordon(self) -> None:
        self._log_manager.cordon(self._config.current.cordoned_log_dirs)

    def _cordon_changed(self) -> None:
        self._cordon()
        logger.info("cordoned log directories: %s", ", ".join(self._config.current.cordoned_log_dirs) or "none")
        if self.registration is not None:
            self.registration.directories_changed()
