"""The parts of a host that not every agent needs; other agents do not import them."""
