"""What the admin client takes and hands out, in Kafka's terms: frozen tuples, by subject. Times are Unix milliseconds unless they say
otherwise, sizes are bytes."""
