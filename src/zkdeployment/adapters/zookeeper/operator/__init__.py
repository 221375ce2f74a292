"""What commands read of the fleet, and the acts of operators."""
