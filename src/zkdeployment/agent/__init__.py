"""Ports: Protocols of what has several adapters, or one with a fake, and the adapters of a program in one value.

Adapters implement the Protocols and raise only exceptions of ``errors``. The docstrings of a Protocol are the
contract; its adapters do not repeat them. Where only one adapter exists, annotations name the class of that
adapter.
"""
