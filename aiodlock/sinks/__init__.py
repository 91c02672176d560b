"""Where events can go."""
