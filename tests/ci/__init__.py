"""Tools of `.ci/run` and the Makefile: what a change touches, flaky tests, the slice of the comparison with JVM Kafka."""
