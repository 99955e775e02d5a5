"""The rotation of tensors."""
