"""Photographs the pages of the service for the manual, with fleets of several sizes and in several states."""
