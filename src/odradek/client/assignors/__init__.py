"""Who of a classic group gets which partitions: the assignors that run in the group's leader. Pure functions of what members say."""
