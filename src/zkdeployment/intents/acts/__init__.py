"""Acts on intents, as commits."""
