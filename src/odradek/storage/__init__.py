"""Logs on disk: segments, indexes, producer state, leader epochs, checkpoints, recovery, the log manager.

Files and formats are Kafka's own. All code here is synchronous and works on a `base.disk.Disk`.

Concurrency contract. The objects of this package belong to the event loop's thread. Other threads may only run:

  1. `File.fsync` on a file obtained on the loop (`Log.begin_flush` on the loop, `Flush.run` anywhere, `Log.finish_flush` on the loop);
  2. `FileSlice.read`: a slice pins its segment, so retention, truncation, close and delete leave the descriptor open until `release()`,
     which is called on the loop;
  3. `DirectoryLoading.work` (load and recovery), before `adopt` hands out its logs: one thread per directory;
  4. the removal of files that were renamed to `.deleted` or of directories renamed to `-delete` (`Deletion.run`).

Truncation never waits for readers: a slice whose bytes were truncated raises `StorageError` on read, and the connection is closed.
"""
