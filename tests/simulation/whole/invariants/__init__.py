"""What a cluster promises, in six families; each module watches, and says what was broken.

`raft`: the metadata log. `controller`: what it has answered. `replication`: records and their copies. `coordinators`: groups and
transactions. `liveness`: that all comes together again. `traffic`: that nobody asks without pause.
"""
