"""Arguments and results of the admin client in Kafka's terms: named tuples, by subject.

Times are Unix milliseconds and sizes are bytes, except where noted.
"""
