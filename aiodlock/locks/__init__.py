"""The synchronizers: each a size, a weight and a policy over the same line."""
