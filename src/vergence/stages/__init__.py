"""The stages: a verb is a file."""
