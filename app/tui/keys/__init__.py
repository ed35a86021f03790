"""Bindings, the bar of keys that matter now, and the leader key."""
