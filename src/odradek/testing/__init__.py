"""A world to test in: virtual time, network and disk, all repeatable from one seed."""
