"""What the daemons and commands need of the outside, in our words.

Each Protocol is one door. Adapters implement them and raise only ``errors``; daemons and tests know nothing
else of the outside.
"""
