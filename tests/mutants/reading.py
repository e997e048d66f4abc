"""Bugs of reading and writing at the command line: ranges, rates, profiles, completion."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Edit, Mutant

_RANGES: Final = "cli/test_ranges.py"
_COMPLETION: Final = "cli/test_completion.py"
_PROFILES: Final = "cli/test_profiles.py"
_PRODUCING: Final = "cli/test_producing.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    # -- ranges ---------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "range-beyond-the-end-waits",
        "cli/ranges.py",
        "return max(start, min(asked, log.last))",
        "return max(start, asked)",
        "A range that goes beyond the end of a partition ends with the partition.",
        f"{_RANGES} -k lies_within",
    ),
    Mutant(
        "range-ends-before-it-starts",
        "cli/ranges.py",
        "return max(start, min(asked, log.last))",
        "return min(asked, log.last)",
        "A range of which nothing is in a partition is empty there.",
        f"{_RANGES} -k lies_within",
    ),
    Mutant(
        "range-before-1970-is-the-latest",
        "cli/times.py",
        "since.microseconds // 1_000, 0)",
        "since.microseconds // 1_000, -2)",
        "-1 and -2 are no times to a broker, but the end and the beginning.",
        f"{_RANGES} -k what_is_typed",
    ),
    Mutant(
        "range-of-seconds-is-of-milliseconds",
        "cli/ranges.py",
        "1_000 if unit_by_length and len(text) == 10 else 1",
        "1",
        "Ten digits after @ are seconds.",
        f"{_RANGES} -k what_is_typed",
    ),
    Mutant(
        "range-kcat-guesses-units",
        "cli/ranges.py",
        "return _start_time(text, text[2:], now_ms, unit_by_length=False), None",
        "return _start_time(text, text[2:], now_ms), None",
        "s@ is in milliseconds, however many digits they have.",
        f"{_RANGES} -k what_is_typed",
    ),
    Mutant(
        "range-elapsed-from-now",
        "cli/ranges.py",
        "min(start.number + end.number, _LATEST_MS)",
        "min(now_ms + end.number, _LATEST_MS)",
        "A length of time counts from the start of the range.",
        f"{_RANGES} -k what_is_typed",
    ),
    Mutant(
        "range-time-of-the-start-ends-it",
        "cli/seeking.py",
        "times[1].get(each)) for each",
        "times[0].get(each)) for each",
        "A range of times ends at its second time.",
        f"{_RANGES} -k is_read",
    ),
    Mutant(
        "range-ends-by-a-record",
        "cli/seeking.py",
        "if self._consumer.position(partition) >= self._ends[partition]]\n        if done",
        "if self._consumer.position(partition) == self._ends[partition]]\n        if done",
        "A range that ends in a gap of a compacted log ends.",
        f"{_RANGES} -k fetched_any_more",
    ),
    Mutant(
        "range-reads-on-in-what-is-done",
        "cli/seeking.py",
        "            self._consumer.pause(*done)\n",
        "",
        "A partition is not fetched beyond the end of its range while others are read.",
        f"{_RANGES} -k fetched_any_more",
    ),
    Mutant(
        "range-for-a-group-is-forgotten",
        "cli/consume.py",
        "if wanted.end is not None or wanted.start.kind not in",
        "if wanted.start.kind not in",
        "A range for a group is refused, and not read without its end.",
        "cli/test_mistakes_reading.py",
    ),
    # -- kcat's queries ---------------------------------------------------------------------------------------------------------------------
    Mutant(
        "query-of-one-time-a-partition",
        "cli/offsets.py",
        "next((request for request in requests if partition not in request), None)",
        "next(iter(requests), None)",
        "One partition is asked for several times.",
        "cli/test_offsets.py -k time_of_its_own",
    ),
    Mutant(
        "query-of-no-partition-is-silent",
        "cli/offsets.py",
        "            if partition not in all_:",
        "            if partition in ():",
        "A partition that is not there is told.",
        "cli/test_mistakes_reading.py",
    ),
    # -- produce --------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "rate-bursts-after-a-stall",
        "cli/send_rate.py",
        "max(self._next, now - _LENIENCE_S)",
        "self._next",
        "What a stall has kept back does not go out at once.",
        f"{_PRODUCING} -k stall",
    ),
    Mutant(
        "rate-loses-what-sleeps-last-too-long",
        "cli/send_rate.py",
        "max(self._next, now - _LENIENCE_S)",
        "max(self._next, now)",
        "Sleeps that last too long do not make the rate lower than asked for.",
        f"{_PRODUCING} -k too_long",
    ),
    Mutant(
        "rate-of-runs-is-forgotten",
        "cli/sending.py",
        "if self._shape.is_plain and not self._sync and self._pace is None:",
        "if self._shape.is_plain and not self._sync:",
        "--rate holds for plain lines, too.",
        f"{_PRODUCING} -k every_form",
    ),
    Mutant(
        "slow-lines-wait-for-others",
        "cli/record_lines.py",
        """        if parts:
            yield parts
    if rest:""",
        """        kept = [*kept, *parts]
    if kept:
        yield kept
    if rest:""",
        "`tail -f log | odradek produce` writes each line when it comes.",
        f"{_PRODUCING} -k slow_writer",
        also=(Edit("cli/record_lines.py", '    rest = b""\n', '    rest = b""\n    kept: list[bytes] = []\n'),),
    ),
    Mutant(
        "transactions-of-runs-are-too-large",
        "cli/sending.py",
        "min(_RUN, self._transaction_size - self._in_transaction)",
        "min(_RUN, self._transaction_size)",
        "A transaction has so many records, also where whole runs are handed over.",
        f"{_PRODUCING} -k transaction",
    ),
    Mutant(
        "transactions-count-what-is-not-committed",
        "cli/sending.py",
        "                self._in_transaction = 0\n",
        "",
        "Every transaction has so many records, not the first alone.",
        f"{_PRODUCING} -k transaction",
    ),
    Mutant(
        "transactional-id-alone-is-no-transaction",
        "cli/produce.py",
        'chosen["transactional.id"] = transactional_id\n',
        "pass\n",
        "--transactional-id makes all records one transaction.",
        f"{_PRODUCING} -k transaction",
    ),
    Mutant(
        "progress-at-once",
        "cli/progress.py",
        "self._start + _PATIENCE_S",
        "self._start",
        "What is done within a second shows no progress.",
        f"{_PRODUCING} -k progress_waits",
    ),
    Mutant(
        "quiet-summary",
        "cli/produce.py",
        "    if not quiet and sys.stderr.isatty():",
        "    if sys.stderr.isatty():",
        "-q is quiet.",
        f"{_PRODUCING} -k quick_or_quiet",
    ),
    # -- start ----------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "start-for-all-without-a-warning",
        "cli/start.py",
        "not of_this_machine(each.host)]",
        "each.host == '0.0.0.0']",
        "Whoever opens a broker to others hears that it asks nobody who they are.",
        "cli/test_start_hosts.py",
    ),
    Mutant(
        "start-quiet-warns-of-nothing",
        "cli/start.py",
        "on_ready=warn if options.quiet else announce",
        "on_ready=None if options.quiet else announce",
        "--quiet keeps warnings.",
        "cli/test_start_hosts.py",
    ),
    # -- profiles -------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "profile-anybody-may-read",
        "cli/profiles.py",
        "os.O_EXCL, 0o600)",
        "os.O_EXCL, 0o644)",
        "Passwords in a profile are for its owner's eyes.",
        f"{_PROFILES} -k owners_alone",
    ),
    Mutant(
        "profile-secrets-are-shown",
        "cli/profiles.py",
        "ADMIN_CONFIG[dotted].type == PASSWORD",
        '"password" in key',
        "Keys and JAAS lines are secrets, too.",
        f"{_PROFILES} -k never_printed",
    ),
    Mutant(
        "profile-written-in-place",
        "cli/profiles.py",
        'temporary = path.with_name(f".{path.name}.{os.getpid()}")',
        "temporary = path",
        "A disk that is full does not cost what was there.",
        f"{_PROFILES} -k not_written_whole",
    ),
    Mutant(
        "profile-in-use-goes-with-other-brokers",
        "cli/client_command.py",
        "if named is None and (servers_given or source != ParameterSource.DEFAULT):",
        "if False:",
        "The passwords of the profile in use do not go to brokers that are named otherwise.",
        f"{_PROFILES} -k names_the_brokers",
    ),
    Mutant(
        "profile-before-the-flag",
        "cli/client_command.py",
        "if key != profiles.SERVERS or source != ParameterSource.COMMANDLINE:",
        "if key:",
        "-b goes before the brokers of a profile.",
        f"{_PROFILES} -k names_the_brokers",
    ),
    Mutant(
        "profile-before-the-line",
        "cli/client_command.py",
        "for each in given)), *given)",
        "for each in given)),)",
        "-X is not forgotten beside a profile.",
        f"{_PROFILES} -k go_before",
    ),
    Mutant(
        "profile-leads-elsewhere",
        "cli/profiles.py",
        "if not _NAME.fullmatch(name):",
        "if not name:",
        "A name of a profile is no path.",
        f"{_PROFILES} -k leads_nowhere",
    ),
    Mutant(
        "profile-deleted-stays-in-use",
        "cli/profiles.py",
        "    if in_use() == name:\n        use(None)\n",
        "",
        "A profile that is deleted is in use no more.",
        f"{_PROFILES} -k is_in_use",
    ),
    # -- what is not there ----------------------------------------------------------------------------------------------------------------
    Mutant(
        "hanging-of-no-broker-is-none",
        "cli/transactions.py",
        "    if not found and broker_id not in {",
        "    if False and broker_id not in {",
        "A broker that is not there has no transactions, hanging or not, and that is said.",
        "cli/test_mistakes_reading.py",
    ),
    Mutant(
        "start-a-broker-that-is-not-in-the-cluster",
        "cli/client_command.py",
        'if error.code is ErrorCode.BROKER_NOT_AVAILABLE and _NOT_IN_THE_CLUSTER in (error.message or ""):',
        "if error.code is ErrorCode.NONE:",
        "Who names a broker that the cluster has not is told which it has.",
        "cli/test_mistakes_reading.py",
    ),
    # -- completion -----------------------------------------------------------------------------------------------------------------------
    Mutant(
        "completion-by-the-words-of-bash",
        "cli/completion.py",
        'if "COMP_LINE" not in os.environ:',
        'if "COMP_WORDS" in os.environ:',
        "-b HOST:PORT is understood although bash parts it at the colon.",
        f"{_COMPLETION} -k brokers_of_the_line",
    ),
    Mutant(
        "completion-waits-as-a-command",
        "cli/completion.py",
        '    chosen |= {"default.api.timeout.ms": _DEADLINE_MS, "request.timeout.ms": _DEADLINE_MS}\n',
        "",
        "Whoever presses a key does not wait for brokers that do not answer.",
        f"{_COMPLETION} -k short_deadline",
    ),
    Mutant(
        "completion-says-what-is-wrong",
        "cli/completion.py",
        "        except Exception:",
        "        except KeyError:",
        "Brokers that cannot be reached print nothing into the line that is being typed.",
        f"{_COMPLETION} -k without_brokers",
    ),
    Mutant(
        "completion-loads-every-command",
        "cli/completion.py",
        '        if incomplete.startswith("-"):\n            return',
        "        if True:\n            return",
        "Completing the name of a command loads none.",
        f"{_COMPLETION} -k loads_none",
    ),
)
