"""Documents of host pools: form, values, and how pools extend each other."""
