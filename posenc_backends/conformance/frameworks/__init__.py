"""One module per framework: helpers that the suite needs to test its layers, and its modes."""
