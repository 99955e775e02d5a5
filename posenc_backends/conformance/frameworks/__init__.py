"""What the suite needs of each framework to test it."""
