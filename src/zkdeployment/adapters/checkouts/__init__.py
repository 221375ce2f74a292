"""Checkouts: software that comes from version control; one module for each system, and where their work is put."""
