"""Who somebody is, and what they may do: principals, resources, decisions, exchanges. Pure: no IO, no clock."""
