"""Server technologies: each one keeps lines, none of them waits, loops or renews on its own."""
