"""Planted bugs of network."""

ROWS = {
    "network/acceptor.py": [
        ("self._sweep.cancel()", "self._sweep.close()", "idle connections stay once there were none"),
        ("eviction.is_kept(descriptor, connection.listener)", "descriptor < 0", "connections use up the descriptors of logs"),
        ("self.eviction.free_descriptors()", "pass", "idle clients keep descriptors that files need"),
        ("lambda: self.limits", "lambda: limits", "clients fill a listener that became inter-broker"),
        ("error.errno == errno.EADDRINUSE", "False", "another process takes one of a listener's addresses"),
        (" if listener.port else _FREE_PORTS - 1", "", "a listener with port 0 fails at times"),
        ("now - since < limits.handshake_s", "True", "half a handshake keeps its connection"),
    ],
    "network/admission.py": [
        ("queue.waiting.pop(connection, None)", "pass", "closed connections use up the creation rate"),
    ],
    "network/connection.py": [
        ("self._acceptor.login_pool)", "self._acceptor.pool)", "unauthenticated frames use up the request memory"),
    ],
    "network/dialled.py": [
        ("len(self._waiting) < self._most_waiting", "True", "requests to a silent node fill the memory"),
        ("self.idle_s if in_flight else ", "", "a connection with requests in flight is closed as idle"),
        ("or (harm and not self._patient)", "", "a node that fails each request is dialled without a pause"),
    ],
    "network/dialling.py": [
        (
            "        except Exception as error:",
            "        except ConnectionLost as error:",
            "an error of a library leaves a connection paused",
        ),
        ("connection.pause()", "pass", "a request during re-authentication breaks the connection"),
    ],
    "network/eviction.py": [
        (
            ">= most - descriptors.kept_from_nodes(most, self._backlog)",
            ">= most - descriptors.kept_from_clients(most, self._backlog)",
            "clients block brokers and controllers from one another",
        ),
        (
            "_clients() if not each.busy and not each.active",
            "_connections if not each.busy and not each.active and each not in self._ending",
            "eviction closes brokers and controllers",
        ),
    ],
    "network/fairness.py": [
        ("now_s > self._clients_until_s", "False", "clients keep the quorum waiting"),
        ("(self._greedy if greedy else self._waiting)", "self._waiting", "a client with one request waits for those that flood"),
    ],
    "network/files.py": [
        ("not stat.S_ISREG(os.fstat(descriptor).st_mode)", "False", "a setting that names /dev/zero fills the memory"),
    ],
    "network/frames.py": [
        ("self.overdrawn_by is not owner:", "self.overdrawn_by is None:", "request memory has no bound"),
        ("and self._retained + capacity <= self._retained_limit", "", "a peak of requests keeps its memory"),
        (".settle(self)\n        self._pool", "", "after one login that overdrew no other may"),
    ],
    "network/inbound.py": [
        (
            "except NotYetError:\n                receiver.put_back(frame)",
            "except NotYetError:",
            "a request that the handler defers is not answered",
        ),
        ("return DEFERRED", "return WAITING", "a held request is served without room"),
        ("self._acceptor.handler.goes_first(connection, head) or ", "", "nodes wait for clients"),
        (
            "if pending:\n                outbound.queue(answer, size)",
            "if False:\n                outbound.queue(answer, size)",
            "a ready response overtakes awaited ones",
        ),
        ("len(outbound.pending) < limits.pipelined_requests\n            and ", "", "requests in flight per connection have no bound"),
        (
            "            and outbound.pending_bytes + len(frame) <= limits.pipelined_bytes\n",
            "",
            "bytes in flight per connection have no bound",
        ),
    ],
    "network/pipeline.py": [
        (
            "self._in_flight[0]",
            "self._in_flight.popleft()\n        self._in_flight.appendleft(request) if len(frame) >= 4 else None",
            "a malformed response header loses its request",
        ),
    ],
    "network/secure.py": [
        ("self._discharge()\n        self", "self", "connections closed mid-frame use up request memory"),
        (
            "_connection.connection_made(",
            "_acceptor.loop.call_later(1, self._connection.connection_made, ",
            "half handshakes take all connections",
        ),
        ("self._state is _State.REFUSED or not (self._paused or self._stepping)", "True", "a TLS client's data is buffered without bound"),
        (
            "resume_reading`.\n            self._acceptor.end_handshake(self._connection)",
            "resume_reading`.\n            pass",
            "connections waiting for the creation rate time out",
        ),
        ("+= self._outgoing.pending", "= raw.get_write_buffer_size()", "a closing TLS client loses the rest of a large response"),
    ],
    "network/transport.py": [
        ("elif not self._grace.waits():", "else:", "a pause ends connections whose responses have arrived"),
    ],
    "network/unsent_bytes.py": [
        (" or self.in_memory > self.most", "", "unsent response bytes have no bound"),
        ("if sender is newest:", "if False:", "a peer is closed for its first large response"),
    ],
    "network/web.py": [
        ("self._watch(sock, self._answer_s)", "self._stop()", "an endless response of a registry or a provider of keys holds a thread"),
        ("self._redirections = redirections", "self._redirections = True", "a client secret follows a redirection"),
        ("            _close_descriptor(each)\n", "            pass\n", "a forked child keeps its parent's connections open"),
    ],
}
