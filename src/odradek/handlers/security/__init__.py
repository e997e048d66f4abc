"""APIs of authentication and authorization, most of which this broker can only refuse: it has PLAINTEXT listeners and no authorizer."""
