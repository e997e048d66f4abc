"""Administration: `blocking.Admin` and `aio.AsyncAdmin`."""
