"""Authentication and authorization: principals, resources, access decisions, SASL exchanges. Pure: no IO, no clock."""
