"""Configuration providers: values of settings in files or in the environment (o.a.k.common.config.provider)."""
