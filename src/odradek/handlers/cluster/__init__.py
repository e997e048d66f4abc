"""APIs by which nodes find out about each other: versions, metadata, quorum, registration."""
