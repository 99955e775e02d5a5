"""The rotations of other libraries beside what `load_rope` makes of their configs."""
