"""A run is a directory; here is what is in it, how it is put together, started, tracked and shown while it goes on."""
