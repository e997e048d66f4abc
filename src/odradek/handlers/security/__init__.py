"""APIs of authentication and authorization."""
