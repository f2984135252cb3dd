"""Notebooks: cells run in a real Jupyter kernel that ends with its session."""
