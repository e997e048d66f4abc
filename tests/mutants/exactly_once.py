"""Bugs of the exactly-once sink and of prepared transactions."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Edit, Mutant

_STORY = "spark/test_exactly_once.py"
_PURE = "spark/test_decisions.py"


def _once(
    name: str, before: str, after: str, breaks: str, tests: str, path: str = "spark/exactly_once.py", also: tuple[Edit, ...] = ()
) -> Mutant:
    return Mutant(name=name, path=path, before=before, after=after, breaks=breaks, tests=tests, also=also)


MUTANTS: Final[tuple[Mutant, ...]] = (
    _once(
        "written-batch-written-again",
        "        return batch == before.batch\n",
        "        return False\n",
        "A batch whose driver ended before Spark heard of it is written twice.",
        f"{_STORY} -k not_written_again",
        "spark/decisions.py",
    ),
    _once(
        "smaller-number-given-up-in-silence",
        "        return batch == before.batch\n",
        "        return batch <= before.batch\n",
        "A query with a new checkpoint loses all batches up to the number of the last one.",
        f"{_PURE} -k conflict",
        "spark/decisions.py",
        also=(Edit("spark/decisions.py", "        if batch < before.batch:\n", "        if False:\n"),),
    ),
    _once(
        "query-not-compared",
        "        if self.query and before.query and self.query != before.query:\n",
        "        if False:\n",
        "Of two queries with one txnAppId, one loses the batches whose number the other has just written.",
        f"{_PURE} -k conflict",
        "spark/decisions.py",
    ),
    _once(
        "query-not-kept",
        'if self.query else ""',
        'if False else ""',
        "After a restart nobody knows whose the last batch was.",
        f"{_PURE} -k says_whose_it_is",
        "spark/decisions.py",
    ),
    _once(
        "attempt-of-a-conflict-left-open",
        "        except SinkConflict:\n            await _give_up(admin, mine)\n            raise\n",
        "        except SinkConflict:\n            raise\n",
        "What is refused stays open, and readers wait for its timeout.",
        f"{_STORY} -k conflict",
    ),
    _once(
        "aborting-completes-another-querys-batch",
        "    except SinkConflict:\n        return False\n",
        "    except SinkConflict:\n        return True\n",
        "A query that was refused commits a batch of the other one, and its own rows are taken for part of that.",
        f"{_STORY} -k conflict",
    ),
    _once(
        "query-of-foreach-batch-not-told",
        "context.getLocalProperty(QUERY_ID) or OUTSIDE_OF_QUERIES",
        '""',
        "Two queries whose functions write under one txnAppId lose each other's batches.",
        "spark/test_spark.py -k batch",
        "spark/sink.py",
    ),
    _once(
        "decided-batch-not-completed",
        'not written again", batch, sink.app_id)\n            await _complete(admin, sink, before)\n',
        'not written again", batch, sink.app_id)\n',
        "A driver that ended after its decision leaves transactions that time out: rows are lost.",
        f"{_STORY} -k ended_after_its_decision",
    ),
    _once(
        "own-attempt-left-open",
        "            await _give_up(admin, mine)\n            logger.warning",
        "            logger.warning",
        "The attempt that was one too many stays open, and readers wait for its timeout.",
        f"{_STORY} -k not_written_again",
    ),
    _once(
        "late-ones-aborted",
        "        await admin.end_transactions(late, commit=True)\n        await admin.fence_producers(strays)\n",
        "        await admin.fence_producers([*strays, *(each.transactional_id for each in late)])\n",
        "What the decision before was about is aborted when the next batch comes first.",
        f"{_STORY} -k completed_by_the_next",
    ),
    _once(
        "strays-left-open",
        "        await admin.fence_producers(strays)\n",
        "",
        "Attempts that were killed stay open, and readers wait for their timeout.",
        f"{_STORY} -k killed",
    ),
    _once(
        "unchecked-before-the-decision",
        "        await _check_open(admin, sink, batch, mine)\n",
        "",
        "A batch of which a task's transaction has timed out is decided, and half of it is lost.",
        f"{_STORY} -k ended_too_early",
    ),
    _once(
        "epoch-not-checked",
        "(found.state, found.producer_id, found.producer_epoch) != (TransactionState.ONGOING, own.producer_id, own.producer_epoch)",
        "(found.state, found.producer_id) != (TransactionState.ONGOING, own.producer_id)",
        "The transaction of another attempt is taken for that of the task.",
        f"{_STORY} -k another_epoch",
    ),
    _once(
        "tasks-before-the-decision",
        "        await owner.commit_transaction()\n        await _complete(admin, sink, Decision(batch, tuple(mine)))\n",
        "        await _complete(admin, sink, Decision(batch, tuple(mine)))\n        await owner.commit_transaction()\n",
        "A driver that ends between the two has committed what the next one writes again.",
        f"{_STORY} -k 'ended_while_it_decided'",
    ),
    _once(
        "aborts-what-is-decided",
        "            await _complete(admin, sink, decided)\n            left = {",
        "            left = {",
        "A commit that failed half way through is not gone on with.",
        f"{_STORY} -k aborting_after",
    ),
    _once(
        "abort-leaves-open",
        "        await _give_up(admin, [each.transaction for each in prepared if each.transaction.transactional_id not in left])\n",
        "        del left\n",
        "Aborted batches stay open until their timeout.",
        f"{_STORY} -k aborting_before",
    ),
    _once(
        "lost-transactions-unnoticed",
        "    if lost:\n",
        "    if False:\n",
        "A batch of which half is lost ends with a bare error of one transaction.",
        f"{_STORY} -k reported",
    ),
    _once(
        "first-offset-of-the-group",
        "    partition, offset = max(first.items(), key=lambda item: item[1].offset)\n",
        "    partition, offset = min(first.items(), key=lambda item: item[1].offset)\n",
        "After the sink has moved to another topic the decision of before is taken for the last.",
        f"{_STORY} -k move_with",
    ),
    _once(
        "empty-batch-completes-nothing",
        "    _run(_commit(settings, sink, batch, prepared) if prepared else _complete_decided(settings, sink, batch))\n",
        "    if prepared:\n        _run(_commit(settings, sink, batch, prepared))\n",
        "The decision of a batch that has no rows any more is never completed.",
        f"{_STORY} -k no_rows_any_more",
    ),
    _once(
        "other-sinks-aborted",
        '        return re.fullmatch(re.escape(self.owner) + r"/[^/]+/[0-9]+/[0-9]+\\.[0-9]+", transactional_id) is not None\n',
        "        return transactional_id.startswith(self.owner)\n",
        "A sink whose name begins like another's aborts its transactions.",
        f"{_PURE} -k nobody_waits",
        "spark/decisions.py",
    ),
    _once(
        "one-slot",
        "{task.batch % _SLOTS}/",
        "0/",
        "A task that was forgotten and wakes up aborts that of the next batch.",
        f"{_PURE} -k follow_one_another",
        "spark/decisions.py",
    ),
    _once(
        "chunks-too-large",
        "size + len(text) > limit",
        "size > _CHUNK_BYTES + 200",
        "A decision about many tasks is refused by the coordinator (OFFSET_METADATA_TOO_LARGE).",
        f"{_PURE} -k many_tasks",
        "spark/decisions.py",
    ),
    _once(
        "closing-aborts-what-is-prepared",
        "        with self._lock:\n            self.core.prepare()\n",
        "        pass\n",
        "Closing the producer aborts, or waits for, a transaction that somebody else is to end.",
        f"{_STORY} -k 'prepared or seen_when'",
        "client/producer/transactions.py",
    ),
    _once(
        "nothing-is-prepared",
        "        if not self.core.started:\n            return None\n",
        "",
        "An empty transaction is handed out, and its end is refused.",
        f"{_STORY} -k can_be_done",
        "client/producer/transactions.py",
    ),
    _once(
        "ends-in-the-newest-version",
        "    return request, _LAST_END_OF_VERSION_1 if prepared.transaction_version == 1 else None\n",
        "    return request, None\n",
        "A transaction of version 1 is ended as one of version 2.",
        "client/test_two_phases.py -k version",
        "client/core/admin_transactions.py",
    ),
    _once(
        "two-phases-not-asked-for",
        "                enable2_pc=self._two_phase,\n",
        "",
        "Transactions of a two-phase commit time out.",
        "client/test_two_phases.py",
        "client/producer/transactions.py",
    ),
    _once(
        "timeout-beside-two-phases",
        '            if self.flag("transaction.two.phase.commit.enable") and self.was_given("transaction.timeout.ms"):\n',
        "            if False:\n",
        "transaction.timeout.ms is accepted and ignored.",
        "client/test_clients.py spark/test_options.py",
        "client/config.py",
    ),
    _once(
        "empty-task-opens",
        "    first = next((batch for batch in batches if batch.num_rows), None)\n    if first is None:\n        return Written(0, sink)\n",
        "    first = next(batches)\n",
        "A task without rows fails, as there is no transaction to prepare.",
        f"{_STORY} -k without_rows",
        "spark/sink.py",
    ),
    _once(
        "exactly-once-without-a-name",
        "    if not streaming and (app_id is None or version is None):\n",
        "    if False:\n",
        "A batch that is run again is written again.",
        "spark/test_options.py",
        "spark/options.py",
    ),
    _once(
        "slash-in-a-name",
        """    if app_id is not None and (not app_id.strip() or "/" in app_id):\n""",
        "    if app_id is not None and not app_id.strip():\n",
        "The names of two sinks' transactions run into one another.",
        "spark/test_options.py",
        "spark/options.py",
    ),
)
