"""Keys: the key that signs publications, the keys of publishers, and signatures by SSH keys."""
