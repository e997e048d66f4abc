"""Tasks beside requests: cleaning, retention, checkpoints, changes of the configuration."""
