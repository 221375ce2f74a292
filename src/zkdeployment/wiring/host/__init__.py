"""The parts of an agent that only some hosts need; the agents of other hosts do not import them."""
