"""Configuration providers: values of settings that stand elsewhere, in files or in the environment (org.apache.kafka.common.config.provider)."""
