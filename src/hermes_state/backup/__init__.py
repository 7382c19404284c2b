"""Copies of the store: one at a time, and the chain of a continuous backup."""
