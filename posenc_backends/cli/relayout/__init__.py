"""`posenc relayout`."""
