"""Reading the fleet for commands, and writing the acts of operators."""
