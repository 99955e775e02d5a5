"""Find the namespace of an array, and check, defer and speed up what is computed with it."""
