"""Client of the server of forked commands, which a shell starts. It imports only low-level modules, to start fast."""

import _signal
import _socket
import marshal
import os
import sys

_PASSED_ON = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM)
_SERVER_IS_GONE = 70
"""Exit status when the server dies before the command has ended."""


def main() -> None:
    """Have the server fork the command, pass signals on to the command, and end as the command did."""
    pid = 0
    early: list[int] = []

    def pass_on(number: int, _: object) -> None:
        if pid:
            os.kill(pid, number)
        else:
            early.append(number)

    ignored = [number for number in _PASSED_ON if _signal.getsignal(number) == _signal.SIG_IGN]
    for number in _PASSED_ON:
        if number not in ignored:
            _signal.signal(number, pass_on)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(sys.argv[1])
    request = marshal.dumps((sys.argv[2:], os.getcwd(), dict(os.environ), os.umask(0), ignored))
    streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in (0, 1, 2))
    connection.sendmsg([len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    sent = 0
    while sent < len(request):
        sent += connection.send(request[sent:])
    for stream in (0, 1, 2):
        os.close(stream)  # a pipe ends when the command closes its end
    pid = int.from_bytes(_received(connection), "big")
    for number in early:
        os.kill(pid, number)
    status = int.from_bytes(_received(connection), "big", signed=True)
    if status < 0:
        _signal.signal(-status, _signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _received(connection: _socket.socket) -> bytes:
    """Return four bytes of the server, or exit: no bytes are neither a pid nor a status."""
    data = connection.recv(4, _socket.MSG_WAITALL)
    if len(data) < 4:
        os._exit(_SERVER_IS_GONE)
    return data


if __name__ == "__main__":
    main()
