"""What the fleet is doing: status and health verdicts. Pure."""
