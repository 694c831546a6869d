"""Learning: what trains weights. Today the short trials behind ``vergence views``."""
