"""What is known about the values of expressions in a torch source: kinds, dtypes and sizes."""
