"""Configuration providers: values of settings that stand elsewhere, in files or in the environment (o.a.k.common.config.provider)."""
