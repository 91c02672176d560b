"""What our own tests are made of, shipped for yours.

``servers`` starts real servers and takes them down, ``proxy`` stands between a client and a server and does harm,
``processes`` runs workers that can be paused and killed, ``history`` records what they saw and checks it.
"""

__all__: list[str] = []
