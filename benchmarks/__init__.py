"""How fast, how fair and how safe is a lock: one harness for ours and for everybody else's. See README.md."""
