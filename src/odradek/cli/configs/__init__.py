"""Commands for configurations, profiles, quotas, features and client metrics."""
