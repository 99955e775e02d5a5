"""`posenc report`."""
