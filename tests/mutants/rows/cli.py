"""Planted bugs of cli."""

ROWS = {
    "cli/shared/client_command.py": [
        ('"surrogateescape', '"replace', "bytes of an argument that are not UTF-8 are lost"),
    ],
    "cli/dumping/dump_log.py": [
        ("(columns(line) if terminal else line)", "line", "a record's control characters reach the terminal"),
    ],
    "cli/topics/log_dirs.py": [
        ("failed += directory.error is not None", "pass", "exit status 0 although a directory failed"),
    ],
    "cli/shared/profiles.py": [
        ('.with_name(f".{path.name}.{os.getpid()}")', "", "a full disk loses the profiles"),
    ],
    "cli/topics/reassign.py": [
        (' and not any(row["state"] == "in progress" for row in rows)', "", "`reassign verify` loses a move between directories"),
    ],
    "cli/shared/signals.py": [
        ("each is not signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN", "True", "an ignored SIGHUP ends the process"),
        ("number for number, handler in before.items() if handler is signal.SIG_DFL", "", "a signal leaves a transaction open"),
    ],
    "cli/topics/topics.py": [
        ("if execute:", "if True:", "`topics delete` deletes without --execute"),
    ],
}
