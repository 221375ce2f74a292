"""The values everyone shares. Pure: no input, no output, no clock."""
